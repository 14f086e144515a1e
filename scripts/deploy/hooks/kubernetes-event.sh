#!/bin/sh
# Writes an event of each incident to the nodes that it names, as `kubectl describe node` shows them; with TAINT=1 it
# also keeps new pods away from them while the incident lasts (taint slowrank=CAUSE:PreferNoSchedule).
#   slowrank run --on-incident /opt/slowrank/kubernetes-event.sh -- python train.py
# Needs jq, kubectl, and for the pod's service account what kubernetes-rights.yml gives. Nodes have their hosts' names;
# pods tell theirs by NODE_NAME (spec.nodeName): then that is the node.
set -eu
: "${KUBECTL:=kubectl}"

now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
type=Warning
[ "$INCIDENT_EVENT" != recovered ] || type=Normal
for node in ${NODE_NAME:-$INCIDENT_HOSTS}; do
	jq -n --arg node "$node" --arg now "$now" --arg type "$type" --arg text "$INCIDENT_TEXT" \
		--arg reason "Slowrank$(printf %s "$INCIDENT_CLASS" | tr -cd '[:lower:]')" '{
			apiVersion: "v1", kind: "Event",
			metadata: {generateName: "slowrank-", namespace: "default"},
			involvedObject: {apiVersion: "v1", kind: "Node", name: $node, uid: $node},
			reason: $reason, message: $text[:1024], type: $type,
			source: {component: "slowrank"},
			firstTimestamp: $now, lastTimestamp: $now, count: 1}' |
		"$KUBECTL" create -f -
	[ "${TAINT:-0}" = 1 ] || continue
	case $INCIDENT_EVENT in
	recovered | ended) "$KUBECTL" taint node "$node" slowrank:PreferNoSchedule- ;;
	*) "$KUBECTL" taint --overwrite node "$node" "slowrank=$INCIDENT_CAUSE:PreferNoSchedule" ;;
	esac
done
