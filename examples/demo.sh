#!/bin/sh
# The demo behind `make demo`: makes a data set, shows what is in it, and walks one example of each task.
set -eu
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); else bold="" plain=""; fi
say() { printf '\n%s== %s%s\n' "$bold" "$1" "$plain"; }

say "A data set: integers whose operators are to be restored (N=10, L=5, D=10,000)"
stepedit data aor --numbers 10 --length 5 --size 10000 --seed 0 --out demo/aor --force

say "What is in it"
stepedit inspect demo/aor --pairs 2

for task in aor aes aec sort; do
    say "Task $task: the expert's actions on one example, each applied by the interpreter"
    stepedit walk "$task" --seed 1
done
