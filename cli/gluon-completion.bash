# Completion of the gluon command for bash.
#
# SPDX-License-Identifier: Apache-2.0
_gluon_models() {
    local file
    for file in "$1"*; do
        [ -d "$file" ] && printf '%s/\n' "$file"
    done
    compgen -f -X '!*-symbol.json' -- "$1" | sed 's/-symbol\.json$//'
}

_gluon() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} options
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "predict summary plot compile convert im2rec bench doctor --help --version" -- "$word"))
        return
    fi
    case $before in
        --input|--params|--labels|--output|-o) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --chunks|--train-ratio|--test-ratio|--exts|--resize|--quality|--num-thread) return ;;
        --encoding) COMPREPLY=($(compgen -W ".jpg .png" -- "$word")); return ;;
        --color) COMPREPLY=($(compgen -W "-1 0 1" -- "$word")); return ;;
        --top|--shape|--name|--batch|--threads|--seconds|--mean|--std) return ;;
    esac
    options="--help"
    case $command in
        predict) options="--input --top --labels --softmax --all --output --mean --std --params --shape --help" ;;
        summary) options="--params --shape --help" ;;
        plot) options="--output --weights --params --shape --help" ;;
        compile) options="--output --name --params --shape --help" ;;
        im2rec) options="--list --exts --chunks --train-ratio --test-ratio --recursive --no-shuffle --pass-through --resize
            --center-crop --quality --num-thread --color --encoding --pack-label --help" ;;
        bench) options="--batch --threads --seconds --imperative --params --shape --help" ;;
    esac
    case $word in
        -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
        *) if [ "$command" = convert ] || [ "$command" = im2rec ]; then
               COMPREPLY=($(compgen -f -- "$word"))
           else
               COMPREPLY=($(_gluon_models "$word"))
           fi ;;
    esac
}
complete -o filenames -F _gluon gluon
