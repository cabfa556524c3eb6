package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A plugin offers so many devices of one extended resource.
type plugin struct {
	api.UnimplementedDevicePluginServer
	resource string
	count    int
	refusal  string
	hasFiles bool
}

func (p *plugin) run(ctx context.Context) error {
	name := strings.NewReplacer("/", "-", ".", "-").Replace(p.resource) + ".sock"
	socket := filepath.Join(api.DevicePluginPath, name)
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := p.register(ctx, name); err != nil {
		return err
	}
	fmt.Printf("registered %d of %s\n", p.count, p.resource)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		server.Stop()
		return nil
	}
}

func (p *plugin) register(ctx context.Context, endpoint string) error {
	kubelet, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: p.resource}
	_, err = api.NewRegistrationClient(kubelet).Register(ctx, request)
	return err
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch tells of all devices once: none of them ever fails.
func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	devices := make([]*api.Device, p.count)
	for number := range devices {
		devices[number] = &api.Device{ID: fmt.Sprint(number), Health: api.Healthy}
	}
	if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	if _, err := os.Stat(p.refusal); p.refusal != "" && err == nil {
		return nil, fmt.Errorf("%s: no device is given out now", p.resource)
	}
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, p.give(container.DevicesIds))
	}
	return response, nil
}

func (p *plugin) give(ids []string) *api.ContainerAllocateResponse {
	variable := strings.ToUpper(strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(p.resource))
	given := &api.ContainerAllocateResponse{Envs: map[string]string{variable: strings.Join(ids, ",")}}
	if p.hasFiles {
		for _, id := range ids {
			file := &api.DeviceSpec{HostPath: "/dev/zero", ContainerPath: "/dev/device" + id, Permissions: "r"}
			given.Devices = append(given.Devices, file)
		}
	}
	return given
}
