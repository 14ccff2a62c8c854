if [ "${NAME+x}" ]; then __sponde_NAME="$NAME"; else unset __sponde_NAME; fi
