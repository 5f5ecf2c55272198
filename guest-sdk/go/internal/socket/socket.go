//go:build !wasip1

// Package socket speaks with the program windlass over a Unix socket: a line of JSON each way. Entry point: [Dial].
// guest-sdk/protocol.md describes the messages.
package socket

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"sync"
)

// Connection is a connection to the program. Its messages are those of any goroutines, one after the other.
type Connection struct {
	lock   sync.Mutex
	stream net.Conn
	reader *bufio.Reader
}

// Dial connects to the program's socket.
func Dial(path string) (*Connection, error) {
	stream, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return &Connection{stream: stream, reader: bufio.NewReader(stream)}, nil
}

// Close ends the connection.
func (c *Connection) Close() error { return c.stream.Close() }

// Exchange sends a message and returns the one that answers it.
func (c *Connection) Exchange(message any) (json.RawMessage, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.Send(message); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Call calls a host function: its name, or its name with its arguments. Where a component would trap, it is an error.
func (c *Connection) Call(function any) (json.RawMessage, error) {
	answer, err := c.Exchange(map[string]any{"Call": function})
	if err != nil {
		return nil, err
	}
	var trapped struct{ Trap *string }
	// Only an object has a trap.
	if json.Unmarshal(answer, &trapped) == nil && trapped.Trap != nil {
		return nil, fmt.Errorf("%s", *trapped.Trap)
	}
	return answer, nil
}

// Send sends a message that no answer is waited for.
func (c *Connection) Send(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = c.stream.Write(append(line, '\n'))
	return err
}

// Receive waits for a message.
func (c *Connection) Receive() (json.RawMessage, error) { return c.reader.ReadBytes('\n') }
