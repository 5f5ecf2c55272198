//go:build !wasip1

package windlasstest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"windlass.dev/windlass/internal/socket"
)

// variable names the program.
const variable = "WINDLASS_BIN"

// program is the program of this process of tests.
type program struct {
	path string
	// input is kept open: the program ends with it, and so with this process.
	input io.Closer
}

// started starts the program for the first fleet.
var started = sync.OnceValues(start)

func start() (*program, error) {
	name := os.Getenv(variable)
	if name == "" {
		name = "windlass"
	}
	command := exec.Command(name, "fleet", project())
	command.Stderr = os.Stderr
	input, failed := command.StdinPipe()
	output, err := command.StdoutPipe()
	if err := errors.Join(failed, err); err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf(
			"the clusters of a test are those of the program windlass, and %s cannot be started: %w; put it on the PATH, or name it in %s",
			name, err, variable)
	}
	path, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return nil, errors.New("windlass fleet did not start: its message is above")
	}
	return &program{strings.TrimSuffix(path, "\n"), input}, nil
}

// project is the folder of the guest, whose definitions are served: the nearest one above a package that has one of its files.
func project() string {
	folder, err := filepath.Abs(".")
	for above := folder; err == nil; above = filepath.Dir(above) {
		for _, file := range []string{"windlass.yaml", "go.mod"} {
			if _, missing := os.Stat(filepath.Join(above, file)); missing == nil {
				return above
			}
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	return "."
}

// connect makes a fleet in the program.
func connect() (*socket.Connection, error) {
	program, err := started()
	if err != nil {
		return nil, err
	}
	return socket.Dial(program.path)
}

// ask does something for the test.
func ask(connection *socket.Connection, asked any) (json.RawMessage, error) {
	text, err := connection.Exchange(map[string]any{"Test": asked})
	if err != nil {
		return nil, fmt.Errorf("windlass fleet has ended: %w", err)
	}
	var answer struct {
		Ok  json.RawMessage
		Err string
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("this is no answer of windlass fleet: %w", err)
	}
	if answer.Err != "" {
		return nil, errors.New(answer.Err)
	}
	return answer.Ok, nil
}
