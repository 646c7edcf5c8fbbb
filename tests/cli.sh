#!/bin/sh
# Runs the gluon command on exported networks: every command, its files, and what it says when something is wrong.
#
#     cli.sh BUILD_DIRECTORY SOURCE_DIRECTORY
#
# SPDX-License-Identifier: Apache-2.0
set -eu
gluon=$1/bin/gluon
models=$1/tests/cli_models
examples=$1/examples
source=$2
: "${CC:=cc}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$models"

fail() {
    echo "cli: $*" >&2
    exit 1
}

# $1, $2: files of numbers, one per line, that agree to 1e-5 (relative to the larger of 1 and the number).
agree() {
    # (An exit in END would replace the status of an earlier one.)
    paste "$1" "$2" | awk 'NF != 2 { exit 1 }
        { d = $1 - $2; d = d < 0 ? -d : d; s = $1 < 0 ? -$1 : $1; if (!(d <= 1e-5 * (s > 1 ? s : 1))) exit 1 }
        END { if (NR == 0) exit 1 }' || fail "$3: $1 and $2 differ"
}

# $1: exit code, $2: a part of the message, the rest: a command.
wrong() {
    code=$1 part=$2
    shift 2
    status=0
    "$@" >wrong.out 2>wrong.err || status=$?
    [ $status -eq "$code" ] || fail "$*: exit code $status, wanted $code: $(cat wrong.err)"
    grep -q -e "$part" wrong.err || fail "$*: '$(cat wrong.err)' lacks '$part'"
}

# ---- help ------------------------------------------------------------------------------------------------------
"$gluon" --help | grep -q predict || fail "--help names no predict"
"$gluon" --version | grep -q '^gluon [0-9]' || fail "--version"
for shell in bash zsh fish; do
    "$gluon" completion $shell >completion.$shell
    if command -v $shell >/dev/null 2>&1; then $shell -n completion.$shell || fail "completion $shell"; fi
done
for command in predict summary plot compile convert im2rec bench run doctor completion; do
    "$gluon" $command --help | grep -q "usage: gluon $command" || fail "$command --help"
    for shell in bash zsh fish; do
        grep -q "$command" completion.$shell || fail "the completion of $shell does not know $command"
    done
    grep -q "gluon $command" "$source/docs/gluon.1" || fail "the manual does not know $command"
    # Every option of the help is in the completion and in the manual.
    for option in $("$gluon" $command --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p'); do
        [ "$option" = --help ] || for shell in bash zsh fish; do
            grep -q -e "${option#--}" completion.$shell || fail "the completion of $shell does not know $command $option"
        done
        [ "$option" = --help ] || [ "$option" = --output ] ||
            grep -q -e "$(echo "$option" | sed 's/-/\\\\-/g')" "$source/docs/gluon.1" || fail "the manual does not know $option"
    done
done
wrong 2 "no completion for 'tcsh'" "$gluon" completion tcsh
# What bash really offers: commands, options of a command, models and networks, and files after an option.
offered() {
    bash -c '. ./completion.bash; COMP_WORDS=(gluon "$@"); COMP_CWORD=$#; _gluon; printf "%s\n" "${COMPREPLY[@]}"' - "$@"
}
offered su | grep -qx summary || fail "bash offers no summary"
offered bench --thr | grep -qx -e --threads || fail "bash offers no --threads"
offered bench resnet18 | grep -qx resnet18_v1 || fail "bash offers no networks"
offered summary len | grep -qx lenet || fail "bash offers no models"
offered predict lenet --input lenet.n | grep -qx lenet.npy || fail "bash offers no files"
wrong 2 "no command" "$gluon" dance
wrong 2 "did you mean 'summary'" "$gluon" sumary
wrong 2 "usage" "$gluon"
wrong 2 "no option" "$gluon" summary lenet --colour
wrong 2 "did you mean '--shape'" "$gluon" summary lenet --shpae 1,1,28,28
wrong 2 "whole number" "$gluon" predict lenet --input lenet.npy --top none
wrong 2 "too many" "$gluon" doctor now
"$gluon" doctor | grep -q "MXNET_CPU_WORKER_NTHREADS" || fail "doctor lists no flags"

# ---- predict ---------------------------------------------------------------------------------------------------
for model in lenet mlp residual mobile waves mixed sorting running words last; do
    "$gluon" predict $model --input $model.npy --all >said
    agree $model.answer said "predict $model"
done
"$gluon" predict lenet-symbol.json --params lenet-0000.params --input data=lenet.npy --all >said
agree lenet.answer said "predict with paths"
"$gluon" predict lenet --input lenet.npy -o y.npy
printf 'shirt\nboot\nbag\ncoat\ndress\na\nb\nc\nd\ne\n' >labels.txt
"$gluon" predict lenet --input lenet.npy --top 3 --softmax --labels labels.txt >said
[ "$(wc -l <said)" -eq 3 ] || fail "--top 3 prints $(wc -l <said) lines"
best=$(awk '{ if (NR == 1 || $1 > m) { m = $1; i = NR - 1 } } END { print i }' lenet.answer)
[ "$(awk 'NR == 1 { print $1 }' said)" = "$best" ] || fail "predict says $(head -1 said), wanted class $best"
grep -q "$(sed -n "$((best + 1))p" labels.txt)" said || fail "predict does not print the label"
cp lenet-0000.params lenet-0007.params # the newest one counts
head -c 100 lenet-0000.params >lenet-0012.params
wrong 1 "lenet-0012.params" "$gluon" predict lenet --input lenet.npy
rm lenet-0007.params lenet-0012.params
printf 'P5\n20 30\n255\n' >grey.pgm
head -c 600 /dev/zero | tr '\0' '\100' >>grey.pgm
"$gluon" predict lenet --input grey.pgm --shape 1,1,28,28 --mean 0.5 --std 0.25 | grep -q '[0-9]' || fail "an image"

wrong 1 "nowhere-symbol.json" "$gluon" predict nowhere --input lenet.npy
wrong 1 "missing.npy" "$gluon" predict lenet --input missing.npy
wrong 1 "axes" "$gluon" predict lenet --input mlp.npy
wrong 1 "expected an image" "$gluon" predict lenet --input labels.txt
head -c 3000 lenet-0000.params >cut.params
wrong 1 "cut.params.*truncated" "$gluon" predict lenet --params cut.params --input lenet.npy
wrong 1 "" "$gluon" predict lenet --params mlp-0000.params --input lenet.npy
head -c 500 lenet-symbol.json >cut-symbol.json
wrong 1 "cut-symbol.json" "$gluon" summary cut
wrong 2 "input" "$gluon" predict lenet

# ---- summary and plot --------------------------------------------------------------------------------------------
"$gluon" summary lenet --shape 1,1,28,28 >table
grep -q "conv0_fwd (Convolution).*(1, 6, 28, 28).*156" table || fail "summary: $(cat table)"
grep -q "total parameters: 51902" table || fail "summary: $(tail -1 table)"
"$gluon" summary lenet | grep -q "total parameters: 51902" || fail "summary without a shape"
"$gluon" summary squeezenet1.1 | grep -q "total parameters: 1235496" || fail "summary of a network of the zoo"
wrong 1 "not a list of numbers" "$gluon" summary lenet --shape 1,x
wrong 1 "no such input" "$gluon" summary lenet --shape image=1,1,28,28
wrong 1 "conv" "$gluon" summary lenet --shape 1,2,28,28

"$gluon" plot residual -o net.dot --shape 1,3,32,32
grep -q '^digraph' net.dot && grep -q '(1, 8, 16, 16)' net.dot || fail "plot writes no graph with shapes"
grep -q _weight net.dot && fail "plot draws weights"
grep -q 'BatchNorm' net.dot && grep -q 'output' net.dot && grep -q 'Convolution 3x3' net.dot || fail "plot says too little"
"$gluon" plot residual -o net.dot --weights && grep -q _weight net.dot || fail "plot --weights"
wrong 2 "ends in" "$gluon" plot lenet -o net.txt
"$gluon" plot residual -o net.svg --shape 1,3,32,32
grep -q '<svg' net.svg && grep -q 'Convolution 3x3' net.svg && grep -q '(1, 8, 16, 16)' net.svg || fail "plot net.svg"
grep -q _weight net.svg && fail "plot draws weights as svg"
if command -v dot >/dev/null; then
    "$gluon" plot lenet -o net.png && [ -s net.png ] || fail "plot net.png"
else
    echo "an earlier drawing" >net.png
    wrong 1 "graphviz" "$gluon" plot lenet -o net.png
    grep -q earlier net.png || fail "plot destroyed net.png"
fi
wrong 1 "nofolder" "$gluon" plot lenet -o nofolder/net.dot

# ---- convert -----------------------------------------------------------------------------------------------------
"$gluon" convert lenet a.safetensors >/dev/null
"$gluon" convert a.safetensors b.npz >/dev/null
"$gluon" convert b.npz c.params >/dev/null
cmp c.params lenet-0000.params || fail "params -> safetensors -> npz -> params changes the file"
"$gluon" convert lenet again >/dev/null
cmp again-symbol.json lenet-symbol.json && cmp again-0000.params lenet-0000.params || fail "converting a model"
cp a.safetensors whole.safetensors
wrong 1 "cut.params" "$gluon" convert cut.params whole.safetensors
cmp a.safetensors whole.safetensors || fail "a failed conversion changed the target"
for file in a.safetensors b.npz; do
    suffix=${file##*.}
    for size in 0 7 40 500 5000; do
        head -c $size $file >cut.$suffix
        wrong 1 "cut.$suffix" "$gluon" convert cut.$suffix out.params
    done
done
[ ! -e out.params ] || fail "a failed conversion left a file"
wrong 2 "ends in" "$gluon" convert a.safetensors b.txt
cp a.safetensors misnamed && cp b.npz misnamed.params # the contents count
"$gluon" convert misnamed d.params >/dev/null && cmp d.params c.params || fail "a file without a suffix"
"$gluon" convert misnamed.params d.params >/dev/null && cmp d.params c.params || fail "an NPZ file named .params"
wrong 1 "one array" "$gluon" convert a.safetensors all.npy
"$gluon" convert "$source/tests/fuzz/regress/hdf5/many_links.h5" from.npz | grep -q "9 arrays" || fail "convert an HDF5 file"
wrong 2 "ends in" "$gluon" convert from.npz from.h5
head -c 3000 "$source/tests/fuzz/regress/hdf5/many_links.h5" >cut.h5
wrong 1 "cut.h5.*outside the file" "$gluon" convert cut.h5 from.npz
wrong 1 "is in no layer" "$gluon" convert "$source/tests/fuzz/regress/hdf5/many_links.h5" --to resnet50_v1 -o net.params
wrong 1 "'conv1.weight', the parameter 'features.0.weight'" "$gluon" convert a.safetensors --to resnet18_v1b -o net.params
wrong 1 "no network 'resnet19'" "$gluon" convert a.safetensors --to resnet19 net.params
wrong 2 "one name for the result" "$gluon" convert a.safetensors --to resnet18_v1b
wrong 2 "usage" "$gluon" convert a.safetensors
wrong 2 ".txt files cannot be written" "$gluon" convert lenet net.txt
wrong 2 ".safetensors" "$gluon" convert a.safetensors net.onnx
[ ! -e net.onnx ] || fail "convert to ONNX left a file"
"$gluon" convert lenet net.onnx --shape 1,1,28,28 >/dev/null || fail "convert to ONNX"
# An ONNX file is a model.
"$gluon" predict net.onnx --input lenet.npy --all >said
agree lenet.answer said "predict net.onnx"
"$gluon" summary net.onnx | grep -q "total parameters: 51902" || fail "summary net.onnx: $("$gluon" summary net.onnx | tail -1)"
"$gluon" plot net.onnx -o onnx.dot && grep -q Convolution onnx.dot || fail "plot net.onnx"
"$gluon" bench net.onnx --seconds 1 | grep -q samples || fail "bench net.onnx"
"$gluon" compile net.onnx -o onnx.c && "$CC" -O1 -std=c99 -c onnx.c || fail "compile net.onnx"
"$gluon" convert lenet open.onnx --shape 0,1,28,28 >/dev/null || fail "convert with an open size"
"$gluon" summary open.onnx | grep -q "total parameters: 51902" || fail "summary open.onnx"
"$gluon" predict open.onnx --input lenet.npy --all >said
agree lenet.answer said "predict open.onnx"
wrong 1 "contains its parameters" "$gluon" predict net.onnx --params lenet-0000.params --input lenet.npy
wrong 1 "missing.onnx" "$gluon" summary missing.onnx
wrong 1 "no such input" "$gluon" summary net.onnx --shape image=1,1,28,28
"$gluon" convert net.onnx back >/dev/null && [ -e back-symbol.json ] && [ -e back-0000.params ] || fail "convert from ONNX"
head -c 1000 net.onnx >cut.onnx
wrong 1 "cut.onnx" "$gluon" convert cut.onnx out
wrong 1 "cut.onnx" "$gluon" predict cut.onnx --input lenet.npy
[ ! -e out-symbol.json ] || fail "a failed conversion from ONNX left a file"
"$gluon" convert lenet net-v1.5 >/dev/null && [ -e net-v1.5-symbol.json ] || fail "a prefix with a version"

# ---- im2rec ------------------------------------------------------------------------------------------------------
mkdir -p photos/cat photos/dog
for i in 1 2 3; do
    { printf 'P5\n4 6\n255\n' && head -c 24 lenet-0000.params; } >photos/cat/$i.pgm
    cp photos/cat/$i.pgm photos/dog/$i.pgm
done
"$gluon" im2rec --list --recursive --exts .jpg,.pgm --no-shuffle pets photos | grep -q 'pets.lst: 6 images' || fail "im2rec --list"
printf '0\t0.000000\tcat/1.pgm\n' | cmp - <<END_OF_LIST || fail "im2rec writes another list"
$(head -1 pets.lst)
END_OF_LIST
"$gluon" im2rec pets photos --pass-through --num-thread=2 | grep -q 'pets.rec: 6 images' || fail "im2rec"
[ "$(wc -l <pets.idx)" -eq 6 ] && [ -s pets.rec ] || fail "im2rec writes no records"
"$gluon" im2rec --list --recursive --exts .pgm --train-ratio 0.5 half photos >/dev/null
[ "$(wc -l <half_train.lst)" -eq 3 ] && [ "$(wc -l <half_val.lst)" -eq 3 ] || fail "im2rec --train-ratio"
wrong 1 "no images" "$gluon" im2rec --list none photos
wrong 1 "there is no list" "$gluon" im2rec none photos
wrong 2 "from 0 to 1" "$gluon" im2rec --list --train-ratio=2 none photos
wrong 2 "color" "$gluon" im2rec --color=7 pets photos

# ---- compile -----------------------------------------------------------------------------------------------------
for row in lenet:1,1,28,28 mlp:3,20 residual:1,3,32,32 mobile:2,3,21,21 waves:2,4,30 mixed:2,3,4 sorting:2,5 \
    words:4,2,3 last:2,8,8,3; do
    model=${row%%:*}
    "$gluon" compile $model -o $model.c --name $model --shape ${row#*:}
    "$CC" -std=c99 -pedantic -Wall -Wextra -Werror -O2 $model.c -lm -o $model.program || fail "$model.c does not compile"
    ./$model.program <$model.raw >said
    agree $model.answer said "compile $model"
    "$CC" -std=c99 -Wall -Wextra -Werror -O3 $model.c -lm -o $model.program || fail "$model.c does not compile with -O3"
    capitals=$(echo $model | tr '[:lower:]' '[:upper:]')
    "$CC" -std=c99 -D${capitals}_NO_MAIN -c $model.c -o $model.o
done
./lenet.program </dev/null 2>said && fail "lenet.program succeeds without an input"
grep -q "784" said || fail "lenet.program does not say what it wants"
cp lenet.c earlier.c
wrong 1 "cumsum0.*cumsum" "$gluon" compile running -o earlier.c --shape 2,5
wrong 1 "'data'" "$gluon" compile lenet -o earlier.c
wrong 1 "conv" "$gluon" compile lenet -o earlier.c --shape 1,3,28,28
wrong 1 "is not a name" "$gluon" compile lenet -o earlier.c --name 1net --shape 1,1,28,28
wrong 1 "nofolder" "$gluon" compile lenet -o nofolder/net.c --shape 1,1,28,28
cmp lenet.c earlier.c || fail "a failed compile changed the target"
wrong 2 "missing" "$gluon" compile lenet

# ---- bench and the examples ----------------------------------------------------------------------------------------
"$gluon" bench lenet --shape 1,1,28,28 --batch 4 --threads 1 --seconds 1 | grep -q "batch 4, 1 threads: .* samples/s" || fail bench
"$gluon" bench mobilenet0.25 --shape 1,3,64,64 --seconds 1 | grep -q "batch 1, .* samples/s" || fail "bench of a network by name"
wrong 1 "not known" "$gluon" bench lenet
if [ -x "$examples/deploy" ]; then
    "$examples/deploy" lenet-symbol.json lenet-0000.params lenet.npy >said
    agree lenet.answer said "deploy.c"
    "$examples/deploy" lenet-symbol.json lenet-0000.params lenet.npy 8 | grep -q "8 threads.*one answer" || fail "deploy.c, threads"
    wrong 1 "deploy" "$examples/deploy" lenet-symbol.json cut.params lenet.npy
fi
if [ -x "$examples/deploy_cpp" ]; then
    "$examples/deploy_cpp" lenet-symbol.json lenet-0000.params lenet.npy >said 2>/dev/null
    agree lenet.answer said "deploy.cpp"
    wrong 1 "deploy_cpp" "$examples/deploy_cpp" lenet-symbol.json cut.params lenet.npy
fi
echo "cli: all well"
