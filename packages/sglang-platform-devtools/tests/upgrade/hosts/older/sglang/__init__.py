raise SystemExit("the host was imported")
