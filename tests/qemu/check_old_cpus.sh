#!/bin/sh
# One program for every x86-64: runs it on older CPUs than this one, as QEMU emulates them. SPARKX is the program. QEMU 7.2
# has no AVX-512 and no AVX-VNNI, so a newer CPU cannot be looked at this way.
set -u
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $(uname -m) in
  x86_64) ;;
  *) echo "this is no x86-64"; echo "0 passed, 0 failed, 1 skipped"; exit 0 ;;
esac

# on CPU [-E NAME=VALUE] PROGRAM…: on an emulated CPU, whose missing system instructions QEMU mentions.
on() {
  qemu-x86_64 -cpu "$@" 2>"$work/errors"
  status=$?
  grep -v "TCG doesn't support requested feature" "$work/errors" >"$work/said"
  return $status
}
check() {
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $name"; cat "$work/said"; fi
}
same_logits() { cmp "$work/logits" "$work/expected"; }
refused() { # by a sentence and exit status 1, not by a signal
  [ "$status" -eq 1 ] && [ "$(tail -n 1 "$work/said")" = "$sentence" ]
}

tokens="--tokens 11,12,13,14,15,16,17,18,19,20"
"$SPARKX" logits $tokens -o "$work/expected" 2>"$work/said" || { cat "$work/said"; exit 1; }
sentence="sparkx: error: this CPU does not have AVX2, FMA and F16C, which sparkx needs to be fast; SPARKX_ISA=reference runs it slowly"

for cpu in Nehalem SandyBridge; do # without AVX; without AVX2
  name="$cpu is refused in a sentence"
  on $cpu "$SPARKX" logits $tokens -o "$work/logits"
  status=$?
  check refused

  name="$cpu runs the reference"
  rm -f "$work/logits"
  on $cpu -E SPARKX_ISA=reference "$SPARKX" logits $tokens -o "$work/logits"
  check same_logits

  name="$cpu tells texts apart without any kernel"
  on $cpu "$SPARKX" tokenize '53乘以42的结果是多少？' >"$work/logits"
  "$SPARKX" tokenize '53乘以42的结果是多少？' | cmp - "$work/logits" 2>>"$work/said"
  check [ $? -eq 0 ]
done

for cpu in Haswell EPYC-Rome; do
  name="$cpu runs avx2"
  on $cpu "$SPARKX" --version >"$work/version"
  check grep -q ', avx2)' "$work/version"

  name="$cpu gives the same logits"
  rm -f "$work/logits"
  on $cpu "$SPARKX" logits $tokens -o "$work/logits"
  check same_logits
done

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
