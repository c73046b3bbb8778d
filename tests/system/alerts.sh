#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: alerts.sh SOURCE
# The alerts and the dashboard in clients/web: promtool takes the rules and the configuration, each
# alert fires where its test says so, and all that they ask for is served.
set -eu
# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
cd "$1/clients/web"
promtool=/usr/bin/promtool
if [ ! -x "$promtool" ]; then
    echo "skipped: promtool is not installed (Debian's package prometheus)"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$promtool" check rules alerts.yml || fault "check rules"
"$promtool" check config prometheus.yml || fault "check config"
"$promtool" test rules alerts_test.yml || fault "test rules"

# Each alert has a test in which it fires, and one in which it does not.
# shellcheck disable=SC2013 # names are words
for alert in $(sed -n 's/^ *- alert: //p' alerts.yml); do
    grep -q "{eval_time: 20m, alertname: $alert}" alerts_test.yml || fault "$alert: no quiet test"
    grep -A1 "alertname: $alert\$" alerts_test.yml | grep -q exp_alerts || fault "$alert: no test"
done

# All names are on the manual page, which system/web compares with what is served.
sed -n 's/^\.It Li \(errbus_[a-z_]*\).*/\1/p' ../errbus-web.1 >"$work/served"
[ -s "$work/served" ] || fault "the page lists no metric"
# shellcheck disable=SC2013 # the same
for name in $(grep -oh 'errbus_[a-z_]*' alerts.yml alerts_test.yml grafana.json | sort -u); do
    grep -qx "${name%_bucket}" "$work/served" || fault "$name: not served"
done

# The expressions of the dashboard, as rules.
/usr/bin/python3 - grafana.json >"$work/dashboard.yml" <<'END' || fault "grafana.json"
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    panels = json.load(file)["panels"]
expressions = [t["expr"] for p in panels for t in p.get("targets", [])]
assert len(expressions) > 20, "a dashboard has panels"
assert len({p["id"] for p in panels}) == len(panels), "ids differ"
print("groups: [{name: dashboard, rules: [")
for number, text in enumerate(expressions):
    text = text.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$job", ".*")
    assert "$" not in text, text
    print(json.dumps({"record": f"panel{number}", "expr": text}) + ",")
print("]}]")
END
"$promtool" check rules "$work/dashboard.yml" || fault "an expression of the dashboard"

end_with_faults
