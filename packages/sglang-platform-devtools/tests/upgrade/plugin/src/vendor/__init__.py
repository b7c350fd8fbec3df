raise SystemExit("the plugin was imported")
