package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

const (
	cdiFolder  = "/run/cdi"
	cdiVersion = "0.6.0"
	model      = "Example"
	memory     = "80Gi"
)

// A driver has so many devices of one model, all of one node, and says by CDI what each is in a container.
type driver struct {
	name  string
	node  string
	count int
}

func (d *driver) run(ctx context.Context) error {
	if err := d.describe(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data := filepath.Join("/var/lib/kubelet/plugins", d.name)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(d.name), kubeletplugin.NodeName(d.node),
		kubeletplugin.KubeClient(client), kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return err
	}
	defer helper.Stop()
	slice := resourceslice.Slice{Devices: d.devices()}
	pools := map[string]resourceslice.Pool{d.node: {Slices: []resourceslice.Slice{slice}}}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (d *driver) devices() []resourceapi.Device {
	devices := make([]resourceapi.Device, d.count)
	for number := range devices {
		devices[number] = resourceapi.Device{
			Name:       fmt.Sprintf("gpu-%d", number),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To(model)}},
			Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}},
		}
	}
	return devices
}

// describe writes what each device is inside a container, as CDI has it.
func (d *driver) describe() error {
	type object = map[string]any
	var devices []object
	for number := range d.count {
		name := fmt.Sprintf("gpu-%d", number)
		files := []object{{"path": "/dev/" + name, "hostPath": "/dev/zero", "permissions": "r"}}
		edits := object{"env": []string{"GIVEN_DEVICE=" + name}, "deviceNodes": files}
		devices = append(devices, object{"name": name, "containerEdits": edits})
	}
	text, err := json.Marshal(object{"cdiVersion": cdiVersion, "kind": d.kind(), "devices": devices})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cdiFolder, d.name+".json"), text, 0o644)
}

func (d *driver) kind() string { return d.name + "/gpu" }

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	prepared := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		prepared[claim.UID] = d.prepare(claim)
		fmt.Printf("prepared %s/%s\n", claim.Namespace, claim.Name)
	}
	return prepared, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	var given []kubeletplugin.Device
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver == d.name {
			id := d.kind() + "=" + result.Device
			given = append(given, kubeletplugin.Device{Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device, CDIDeviceIDs: []string{id}})
		}
	}
	return kubeletplugin.PrepareResult{Devices: given}
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	done := map[types.UID]error{}
	for _, claim := range claims {
		done[claim.UID] = nil
		fmt.Printf("released %s/%s\n", claim.Namespace, claim.Name)
	}
	return done, nil
}

func (d *driver) HandleError(_ context.Context, err error, message string) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", message, err)
}
