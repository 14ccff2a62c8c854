export NAME=VALUE
