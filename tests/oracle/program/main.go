// Command oracle says what Kubernetes' own scheduler plugins make of a pod in a world, which devices its allocator gives
// to claims on each node, and which selectors mean a device.
//
// It reads one world per line of standard input, as JSON, and writes one verdict per line, in the same order. A world
// that cannot be judged gets a line {"error": "..."}; the program goes on. It never talks to a cluster.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"
)

// A gigabyte of garbage is cheaper than collecting it between two worlds.
const gcPercent = 800

type answer struct {
	*verdict
	Served    map[string]served `json:"served,omitempty"`
	Selectors []string          `json:"selectors,omitempty"`
	Error     string            `json:"error,omitempty"`
}

// question is a world in which something else is asked than where a pod may go.
type question struct {
	Devices   *deviceWorld   `json:"devices"`
	Selectors *selectorWorld `json:"selectors"`
}

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	debug.SetGCPercent(gcPercent)
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	bench, err := newBench(ctx)
	if err != nil {
		return err
	}
	reader := bufio.NewReaderSize(in, 1<<20)
	for {
		line, readErr := reader.ReadBytes('\n')
		if len(line) > 1 {
			text, err := json.Marshal(answerTo(ctx, bench, line))
			if err != nil {
				return err
			}
			if _, err := out.Write(append(text, '\n')); err != nil {
				return err
			}
		}
		if readErr == io.EOF {
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
}

// answerTo judges one world; a plugin that panics spoils only this one.
func answerTo(ctx context.Context, bench *bench, line []byte) (result answer) {
	defer func() {
		if cause := recover(); cause != nil {
			result = answer{Error: fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())}
		}
	}()
	asked := question{}
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	if asked.Selectors != nil {
		return answer{Selectors: asked.Selectors.judge(ctx)}
	}
	if asked.Devices != nil {
		served, err := asked.Devices.serve(ctx)
		if err != nil {
			return answer{Error: err.Error()}
		}
		return answer{Served: served}
	}
	world, err := parseWorld(line)
	if err != nil {
		return answer{Error: err.Error()}
	}
	found, err := bench.judge(ctx, world)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{verdict: found}
}
