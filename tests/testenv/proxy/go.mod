module testenv/proxy

go 1.26.8

require (
	github.com/armon/go-socks5 v0.0.0-20160902184237-e75332964ef5
	github.com/elazarl/goproxy v1.9.3
	github.com/elazarl/goproxy/ext v0.0.0-20200809112317-0581fc3aee2d
)

require (
	golang.org/x/net v0.50.0 // indirect
	golang.org/x/text v0.34.0 // indirect
)
