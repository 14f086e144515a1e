#!/bin/sh
# Writes to a channel of Slack (or what takes its format: Mattermost, Discord's /slack) when an incident begins and ends.
#   SLACK_URL=https://hooks.slack.com/services/... slowrank run --on-incident /opt/slowrank/slack.sh -- ...
# Needs jq and curl. The URL is a secret: it is not on a command line.
set -eu
: "${SLACK_URL:?slack.sh: say which webhook}"

[ "$INCIDENT_EVENT" != update ] || exit 0
jq -n --arg text "$INCIDENT_TEXT" --arg job "$INCIDENT_JOB" '
	def plain: gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub(">"; "&gt;");
	{text: "*\($job | plain)*: \($text | plain)"}' |
	curl --silent --show-error --fail --max-time 20 --header 'Content-Type: application/json' --data-binary @- \
		--config /dev/fd/3 3<<-END
			url = "$SLACK_URL"
		END
