module example.com/{{name}}

go 1.24

require windlass.dev/windlass v0.1.0

// The SDK that `windlass new` wrote.
replace windlass.dev/windlass => ./sdk
