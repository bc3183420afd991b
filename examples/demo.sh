#!/bin/sh
# The demo behind `make demo`: asks the models that come with stepedit, makes a data set, walks one example of each task,
# then teaches a programmer to restore operators, scores it beside the paper's figure, and lets it edit two texts it has
# never seen.
set -eu
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); else bold="" plain=""; fi
say() { printf '\n%s== %s%s\n' "$bold" "$1" "$plain"; }

say "Models that come with stepedit, at once: operators put back, brackets worked out, errors repaired, words spelled"
stepedit edit aor "6 10 9 5 2" --trace
stepedit edit aes "( 13 - 11 ) * 11 + ( - 42 + 101 ) - 25 == 56" --trace
stepedit edit aec "10 - 7 + 2 + == 11" --trace
stepedit edit spelling "a catagory of the enviroment, definately" --trace

say "A data set: integers whose operators are to be restored (N=10, L=5, D=10,000)"
stepedit data aor --numbers 10 --length 5 --size 10000 --seed 0 --out demo/aor --force

say "What is in it"
stepedit inspect demo/aor --pairs 2

for task in aor aes aec sort; do
    say "Task $task: the expert's actions on one example, each applied by the interpreter"
    stepedit walk "$task" --seed 1
done

say "Teaching: put the operators back, Recurrence, for three minutes"
rm -rf demo/run
stepedit train aor --data demo/aor --mode augmented --layers 2 --max-minutes 3 --out demo/run

say "How right it is on pairs it has never seen, beside what the paper's authors got in 1.3 hours on a graphics card"
stepedit evaluate demo/run

say "Two of them, step by step, with how sure it was of each step"
head -n 2 demo/aor/test_x.txt | stepedit edit demo/run --trace
