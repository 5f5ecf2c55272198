// A registry in memory that has the API of referrers, which the registry beside it has not. Speaks plain HTTP and asks for no login.
package main

import (
	"flag"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	address := flag.String("listen", "127.0.0.1:0", "`HOST:PORT`")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0)
	log.Fatal(http.Serve(listener, registry.New(registry.WithReferrersSupport(true), registry.Logger(quiet))))
}
