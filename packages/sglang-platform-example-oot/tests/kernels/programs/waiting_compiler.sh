#!/bin/sh
# Stands before c++: waits until the file $GO is there, and notes each call that compiles.
case "$*" in
  *--version*) exec c++ --version ;;
  *.cpp*) echo compile >> "$CALLS"; while [ ! -e "$GO" ]; do sleep 0.1; done ;;
esac
exec c++ "$@"
