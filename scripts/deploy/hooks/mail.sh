#!/bin/sh
# Mails when an incident begins and ends, not each change.
#   MAIL_TO=ops@example.org slowrank run --on-incident /opt/slowrank/mail.sh -- ...
set -eu
: "${MAIL_TO:?mail.sh: say who gets it}" "${SENDMAIL:=/usr/sbin/sendmail}"

[ "$INCIDENT_EVENT" != update ] || exit 0
{
	printf 'To: %s\nSubject: slowrank: %s of job %s\nContent-Type: text/plain; charset=utf-8\n\n%s\n\n' \
		"$MAIL_TO" "$INCIDENT_CLASS" "$INCIDENT_JOB" "$INCIDENT_TEXT"
	cat # the JSON
} | "$SENDMAIL" -t
