// Devices of a node that has none: a device plugin and a DRA driver that speak with the kubelet over its real sockets.
// What a container gets of them is a variable that names its devices, and a character device for each.
//
//	devices plugin -resource nvidia.com/gpu -count 4
//	devices driver -name gpu.example.com -node node-1 -count 4
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("usage: devices plugin|driver [flags]")
	}
	flags := flag.NewFlagSet(arguments[0], flag.ExitOnError)
	count := flags.Int("count", 1, "how many devices there are")
	switch arguments[0] {
	case "plugin":
		plugin := &plugin{}
		flags.StringVar(&plugin.resource, "resource", "nvidia.com/gpu", "the extended resource")
		flags.StringVar(&plugin.refusal, "refuse-while", "", "a file: while it is there no device is given out")
		flags.BoolVar(&plugin.hasFiles, "files", false, "whether each device is a file in the container")
		flags.Parse(arguments[1:])
		plugin.count = *count
		return plugin.run(ctx)
	case "driver":
		driver := &driver{}
		flags.StringVar(&driver.name, "name", "gpu.example.com", "the driver")
		flags.StringVar(&driver.node, "node", "", "the node that it runs on")
		flags.Parse(arguments[1:])
		driver.count = *count
		return driver.run(ctx)
	}
	return fmt.Errorf("no such part: %s", arguments[0])
}
