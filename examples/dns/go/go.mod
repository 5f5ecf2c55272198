module dns

go 1.24

require windlass.dev/windlass v0.1.0

replace windlass.dev/windlass => ../../../guest-sdk/go
