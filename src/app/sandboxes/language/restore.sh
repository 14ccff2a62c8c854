if [ "${__sponde_NAME+x}" ]; then export NAME="$__sponde_NAME"; unset __sponde_NAME; else unset NAME; fi
