package main

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	rulesapi "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
)

// deviceFeatures are those that are on in 1.36, less what volsched leaves alone: attributes that are lists, still alpha.
var deviceFeatures = structured.Features{
	AdminAccess:            true,
	ConsumableCapacity:     true,
	DeviceBindingAndStatus: true,
	DeviceTaints:           true,
	PartitionableDevices:   true,
	PrioritizedList:        true,
}

var celFeatures = cel.Features{EnableConsumableCapacity: true}

// deviceWorld is what the allocator sees: Taken are claims that have devices, Claims those of the pod to be placed.
type deviceWorld struct {
	Nodes   []*v1.Node                   `json:"nodes"`
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Rules   []*rulesapi.DeviceTaintRule  `json:"rules"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Taken   []*resourceapi.ResourceClaim `json:"taken"`
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
}

// served is what one node gives: an allocation for each claim, or none; Error is for what ends the whole attempt.
type served struct {
	Allocations []resourceapi.AllocationResult `json:"allocations,omitempty"`
	Error       string                         `json:"error,omitempty"`
}

// selectorWorld is a device, and expressions that may mean it.
type selectorWorld struct {
	Driver      string              `json:"driver"`
	Device      *resourceapi.Device `json:"device"`
	Expressions []string            `json:"expressions"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, found := range c {
		if found.Name == name {
			return found, nil
		}
	}
	return nil, fmt.Errorf("device class %s does not exist", name)
}

// serve asks the allocator about every node.
func (w *deviceWorld) serve(ctx context.Context) (map[string]served, error) {
	for _, claim := range append(append([]*resourceapi.ResourceClaim{}, w.Taken...), w.Claims...) {
		legacyscheme.Scheme.Default(claim)
	}
	for _, slice := range w.Slices {
		legacyscheme.Scheme.Default(slice)
	}
	slices, err := w.tainted(ctx)
	if err != nil {
		return nil, err
	}
	selectors := cel.NewCache(1000, celFeatures)
	allocator, err := structured.NewAllocator(ctx, deviceFeatures, w.allocated(), classes(w.Classes), slices, selectors)
	if err != nil {
		return nil, err
	}
	answers := map[string]served{}
	for _, node := range w.Nodes {
		found, err := allocator.Allocate(ctx, node, w.Claims)
		switch {
		case err == nil, errors.Is(err, structured.ErrFailedAllocationOnNode):
			answers[node.Name] = served{Allocations: found}
		default:
			answers[node.Name] = served{Error: err.Error()}
		}
	}
	return answers, nil
}

// tainted gives the slices as kube-scheduler's tracker has them, with the taints of the rules.
func (w *deviceWorld) tainted(ctx context.Context) ([]*resourceapi.ResourceSlice, error) {
	if len(w.Rules) == 0 {
		return w.Slices, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	objects := []runtime.Object{}
	for _, slice := range w.Slices {
		objects = append(objects, slice)
	}
	for _, rule := range w.Rules {
		objects = append(objects, rule)
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	defer factory.Shutdown()
	defer cancel()
	found, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true,
		SliceInformer:          factory.Resource().V1().ResourceSlices(),
		TaintInformer:          factory.Resource().V1beta2().DeviceTaintRules(),
		ClassInformer:          factory.Resource().V1().DeviceClasses(),
	})
	if err != nil {
		return nil, err
	}
	defer found.Stop()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), found.HasSynced) {
		return nil, errors.New("the tracker has not synced")
	}
	return found.ListPatchedResourceSlices()
}

// allocated sums up what claims have, as the scheduler's plugin does.
func (w *deviceWorld) allocated() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range w.Taken {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
		}
	}
	return state
}

// judge says of each expression "true", "false" or "error: ...".
func (w *selectorWorld) judge(ctx context.Context) []string {
	verdicts := make([]string, len(w.Expressions))
	for i, expression := range w.Expressions {
		compiled := cel.GetCompiler(celFeatures).CompileCELExpression(expression, cel.Options{})
		if compiled.Error != nil {
			verdicts[i] = "error: " + compiled.Error.Error()
			continue
		}
		matches, _, err := compiled.DeviceMatches(ctx, cel.Device{
			Driver:                   w.Driver,
			AllowMultipleAllocations: w.Device.AllowMultipleAllocations,
			Attributes:               w.Device.Attributes,
			Capacity:                 w.Device.Capacity,
		})
		if err != nil {
			verdicts[i] = "error: " + err.Error()
			continue
		}
		verdicts[i] = fmt.Sprint(matches)
	}
	return verdicts
}
