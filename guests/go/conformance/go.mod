module conformance

go 1.24

require windlass.dev/windlass v0.0.0

replace windlass.dev/windlass => ../../../guest-sdk/go
