# What quickstart, test and .ci/run share: words, and checks of what this machine has. To be sourced.
#
# A check that fails says in one line what is missing and is counted; `stop_if_missing` ends the script
# after all of them, so that a person sees everything at once.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
missing=0

if [[ -t 2 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' red=$'\e[31m' cyan=$'\e[36m' plain=$'\e[0m'
else
  bold='' red='' cyan='' plain=''
fi

step() { printf '%s[%s] %s%s\n' "$bold" "$1" "$2" "$plain" >&2; }
note() { printf '      %s\n' "$1" >&2; }
error() { printf '%serror:%s %s\n' "$red" "$plain" "$1" >&2; }
hint() { printf '%shint:%s %s\n' "$cyan" "$plain" "$1" >&2; }
lacks() { error "$1"; missing=$((missing + 1)); }
die() { error "$1"; exit 1; }
stop_if_missing() { if (( missing > 0 )); then exit 1; fi; }

# at_least VERSION OLDEST
at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# The oldest Rust is the one Cargo.toml names.
check_rust() {
  local oldest found
  oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
  if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
    lacks "no Rust: install cargo and rustc $oldest or newer, see https://rustup.rs"
    return
  fi
  found=$(cd "$root" && rustc --version 2>/dev/null | awk '{print $2}') || found=''
  if [[ -z $found ]]; then
    lacks "rustc does not run: try \`rustc --version\` in $root"
  elif ! at_least "$found" "$oldest"; then
    lacks "rustc is $found, $oldest or newer is needed: \`rustup update stable\`"
  fi
}

check_python() {
  if ! command -v python3 >/dev/null; then
    lacks 'no python3: install Python 3.10 or newer, on Debian and Ubuntu: apt-get install python3 python3-venv'
  elif ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    lacks "python3 is $(python3 -V 2>&1 | awk '{print $2}'), 3.10 or newer is needed"
  elif ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    lacks 'python3 cannot make virtual environments: on Debian and Ubuntu: apt-get install python3-venv'
  fi
}

# The crate `ring` compiles C and assembly.
check_c_compiler() {
  local compiler=${CC:-cc}
  if ! command -v "${compiler%% *}" >/dev/null; then
    lacks "no C compiler (\`$compiler\`): on Debian and Ubuntu: apt-get install gcc libc6-dev"
  fi
}

# existing DIRECTORY: the nearest directory above that is there.
existing() {
  local dir=$1
  while [[ ! -d $dir ]]; do dir=$(dirname "$dir"); done
  printf '%s\n' "$dir"
}

# check_space WHAT DIRECTORY MEGABYTES
check_space() {
  local free
  free=$(df -Pm "$(existing "$2")" | awk 'NR == 2 {print $4}')
  if (( free < $3 )); then
    lacks "$1 needs about $3 MB in $2, there are $free MB"
  fi
}

# Cargo runs in the repository, so that its configuration and toolchain files count; a relative
# CARGO_TARGET_DIR stays what it is from where the person is.
absolute() {
  case $1 in
    /*) printf '%s\n' "$1" ;;
    *) printf '%s/%s\n' "$PWD" "$1" ;;
  esac
}
if [[ -n ${CARGO_TARGET_DIR:-} ]]; then
  CARGO_TARGET_DIR=$(absolute "$CARGO_TARGET_DIR")
  export CARGO_TARGET_DIR
fi
target_dir=${CARGO_TARGET_DIR:-$root/target}

# Asks the network only for what is not there yet. Cargo says what went wrong.
fetch_crates() {
  local host
  host=$(rustc -vV | sed -n 's/^host: //p')
  if ! (cd "$root" && cargo fetch --locked --target "$host"); then
    die 'the crates could not be downloaded: is the network there?'
  fi
}
