// A proxy for HTTP, HTTPS or SOCKS5, of libraries that many proxies are built on. It serves until it is killed, and prints what it connects to.
//
// It knows names that its clients cannot resolve, as the proxy of a private network does: those below .test, which are this machine.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/armon/go-socks5"
	"github.com/elazarl/goproxy"
	"github.com/elazarl/goproxy/ext/auth"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "the address to listen on")
	scheme := flag.String("scheme", "http", "http, https or socks5")
	login := flag.String("login", "", "USER:PASSWORD that clients must send; empty: none")
	certificate := flag.String("certificate", "", "the certificate's file, for https")
	key := flag.String("key", "", "the key's file, for https")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	switch *scheme {
	case "http":
		err = http.Serve(listener, httpProxy(*login))
	case "https":
		err = serveTLS(listener, httpProxy(*login), *certificate, *key)
	case "socks5":
		err = serveSocks(listener, *login)
	default:
		err = fmt.Errorf("no such scheme: %s", *scheme)
	}
	log.Fatal(err)
}

// Speaks HTTP/1.1 alone: a tunnel takes over its connection, which HTTP/2 does not allow.
func serveTLS(listener net.Listener, proxy http.Handler, certificate, key string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	return http.Serve(tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}}), proxy)
}

func httpProxy(login string) http.Handler {
	proxy := goproxy.NewProxyHttpServer()
	proxy.ConnectDial = func(network, address string) (net.Conn, error) {
		return connect(context.Background(), network, address)
	}
	proxy.Tr = &http.Transport{DialContext: connect}
	if login != "" {
		auth.ProxyBasic(proxy, "windlass", func(user, password string) bool { return user+":"+password == login })
	}
	return proxy
}

func serveSocks(listener net.Listener, login string) error {
	config := &socks5.Config{Dial: connect, Resolver: names{}}
	if user, password, found := strings.Cut(login, ":"); found {
		config.Credentials = socks5.StaticCredentials{user: password}
	}
	server, err := socks5.New(config)
	if err != nil {
		return err
	}
	return server.Serve(listener)
}

func connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	fmt.Println("connects to", address)
	return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(resolve(host), port))
}

func resolve(host string) string {
	if strings.HasSuffix(host, ".test") {
		return "127.0.0.1"
	}
	return host
}

type names struct{}

func (names) Resolve(ctx context.Context, name string) (context.Context, net.IP, error) {
	address, err := net.ResolveIPAddr("ip", resolve(name))
	if err != nil {
		return ctx, nil, err
	}
	return ctx, address.IP, nil
}
