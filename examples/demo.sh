#!/bin/sh
# The demo behind `make demo`: makes a data set, walks one example of each task, then teaches a small programmer to sort
# and lets it edit two texts it has never seen.
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

say "Teaching, for half a minute: sort four integers by swapping neighbours"
rm -rf demo/run
stepedit train sort --numbers 30 --length 4 --size 2000 --seed 0 --hidden 32 --rate 0.004 --weight-decay 0 \
    --max-epochs 120 --validate-every 20 --threads 1 --out demo/run

say "How right it is on pairs it has never seen"
stepedit evaluate demo/run

say "Two texts, step by step, with how sure it was of each step"
stepedit edit demo/run "9 3 7 1" "28 5 5 0" --trace
