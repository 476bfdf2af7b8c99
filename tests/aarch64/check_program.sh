#!/bin/sh
# The program for 64-bit ARM, as QEMU emulates CPUs with and without dot products, against the one for this machine
# (build/sparkx): logits have the same bits, and a text is the same text. SPARKX is the program for ARM.
set -u
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

native=build/sparkx
[ -x "$native" ] || { echo "no $native: scripts/build release"; exit 1; }

on() { # CPU [-E NAME=VALUE] ARGUMENTS OF SPARKX…
  cpu=$1
  shift
  variable=""
  if [ "$1" = -E ]; then variable=$2; shift 2; fi
  qemu-aarch64 -cpu "$cpu" ${variable:+-E "$variable"} "$SPARKX" "$@" 2>"$work/said"
}
check() {
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $name"; cat "$work/said"; fi
}
same_logits() { cmp "$work/logits" "$work/expected"; }
refused() { # by a sentence and exit status 1, not by a signal
  [ "$status" -eq 1 ] && [ "$(tail -n 1 "$work/said")" = "$sentence" ]
}

prompt='53乘以42的结果是多少？'
sentence="sparkx: error: this CPU does not have NEON with dot products (FEAT_DotProd), which sparkx needs to be fast; SPARKX_ISA=reference runs it slowly"
for options in "" "--quantize 4bit" "--quantize 8bit" "--activations float32 --quantize 4bit"; do
  # shellcheck disable=SC2086
  "$native" logits $options --tokens "11 12 13 14 15 16 17 18 19 20" -o "$work/expected" 2>"$work/said" || { cat "$work/said"; exit 1; }
  for isa in neon neoni8mm reference; do
    name="logits${options:+ $options} on max, $isa"
    rm -f "$work/logits"
    # shellcheck disable=SC2086
    on max -E SPARKX_ISA=$isa logits $options --tokens "11 12 13 14 15 16 17 18 19 20" -o "$work/logits"
    check same_logits
  done
done

name="a CPU with dot products runs neon, and says how far it was tested"
on neoverse-n1 --version >"$work/version"
check grep -q ', neon, tested under emulation only)$' "$work/version"

name="a text is the same text"
on neoverse-n1 generate --temp 0 -n 24 -p "$prompt" >"$work/text"
"$native" generate --temp 0 -n 24 -p "$prompt" 2>/dev/null | cmp - "$work/text" >>"$work/said"
check [ $? -eq 0 ]

name="a CPU without dot products is refused in a sentence"
on cortex-a53 logits --tokens 11 -o "$work/logits"
status=$?
check refused

name="a CPU without dot products runs the reference"
"$native" logits --tokens 11 -o "$work/expected" 2>/dev/null
rm -f "$work/logits"
on cortex-a53 -E SPARKX_ISA=reference logits --tokens 11 -o "$work/logits"
check same_logits

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
