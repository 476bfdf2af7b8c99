#!/bin/sh
# What a person with a real Spark-X2.5 checkpoint wants to know: does it load, does it answer, does it call a tool, how fast.
# Ends with one line: N passed, N failed, N skipped.
#
# usage: tests/real/check_real_model.sh DIR, or SPARKX_MODEL=DIR make test-real
#   SPARKX   a binary to use instead of building build/sparkx
set -eu
cd "$(dirname "$0")/../.."

[ $# -eq 1 ] && [ -n "$1" ] || { sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
model=$(cd "$OLDPWD" && cd "$1" && pwd)
sparkx=${SPARKX:-build/sparkx}
if [ -z "${SPARKX:-}" ]; then
  scripts/bootstrap
  scripts/build release sparkx_cli
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() {  # check NAME STATUS
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); echo "passed  $1"; else failed=$((failed + 1)); echo "FAILED  $1"; fi
}
generate() { "$sparkx" generate --model "$model" --temp 0 --json --verbose "$@" >"$work/tokens" 2>"$work/log"; }
# The last line holds the whole text; the lines before it one token each.
last_line() { tail -n 1 "$work/tokens"; }
show() { sed 's/^/        /' "$work/log"; last_line | sed 's/^/        /'; }

status=0
"$sparkx" inspect "$model" || status=$?
check "inspect finds nothing that sparkx cannot run" $status

status=0
"$sparkx" logits --model "$model" --tokens 0,1,2,3 --output "$work/logits.safetensors" 2>"$work/log" || status=$?
cat "$work/log"
check "the checkpoint loads and computes logits" $status

status=0
generate --prompt '53乘以42的结果是多少？' --max-tokens 4096 || status=$?
show
last_line | grep -q '"finish_reason": *"stop"' || status=1
check "a question is answered to the end" $status
last_line | grep -q '2226' || status=1
check "53 times 42 is 2226, greedily" $status

# The tool format of docs/model.md, Chat format, written out: what is checked is the model, not the template.
status=0
printf '%s\n%s' '<｜start▁of▁sentence｜><|System|>' \
  'you are a helpful assistant.## Tools
You have access to the following functions:
<tools>
{"name": "get_weather", "description": "The weather in a city now", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Name of the city"}}, "required": ["city"]}}
</tools><｜end▁of▁sentence｜><｜start▁of▁sentence｜><|User|>What is the weather in Paris?<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|></think>' \
  >"$work/prompt"
generate --file "$work/prompt" --raw --max-tokens 512 || status=$?
show
last_line | grep -q '<tool_call>get_weather<arg_key>city</arg_key><arg_value>[^<]*Paris[^<]*</arg_value></tool_call>' || status=1
check "a question about the weather becomes a tool call" $status

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
