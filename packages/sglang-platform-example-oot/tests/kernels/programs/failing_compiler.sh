#!/bin/sh
# Stands in for c++: tells a version, and compiles nothing.
case "$*" in
  *.cpp*) echo 'fatal: this compiler always fails' >&2; exit 1 ;;
  *) echo 12.2.0 ;;
esac
