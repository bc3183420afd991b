#!/bin/sh
# The demo behind `make demo`: edits with the models that come with stepedit, generates a data set, shows the expert on
# one example of each task, then trains a model to restore operators, evaluates it beside the paper's result, and edits
# two unseen texts with it.
set -eu
if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); else bold="" plain=""; fi
heading() { printf '\n%s== %s%s\n' "$bold" "$1" "$plain"; }

heading "The models that come with stepedit: restore operators, simplify and correct equations, correct spelling"
stepedit edit aor "6 10 9 5 2" --trace
stepedit edit aes "( 13 - 11 ) * 11 + ( - 42 + 101 ) - 25 == 56" --trace
stepedit edit aec "10 - 7 + 2 + == 11" --trace
stepedit edit spelling "a catagory of the enviroment, definately" --trace

heading "A data set: integers whose operators are to be restored (N=10, L=5, D=10,000)"
stepedit generate aor --numbers 10 --length 5 --num-examples 10000 --seed 0 --out demo/aor --force

heading "Its statistics, and two pairs"
stepedit inspect demo/aor --pairs 2

for task in aor aes aec sort; do
    heading "Task $task: the expert's actions on one example, each applied by the interpreter"
    stepedit expert "$task" --seed 1
done

heading "Training: restore operators with Recurrence, for three minutes"
rm -rf demo/run
stepedit train aor --data demo/aor --mode augmented --num-layers 2 --max-minutes 3 --out demo/run

heading "Accuracy on the test split, beside the paper's (1.3 hours of training on a GPU)"
stepedit evaluate demo/run

heading "Two test texts, step by step, with the confidence of each step"
head -n 2 demo/aor/test_x.txt | stepedit edit demo/run --trace
