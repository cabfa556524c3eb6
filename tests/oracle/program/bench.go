package main

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// leftOut are plugins of the default profile that are not asked. Claims of devices and limits on attached volumes are
// tested otherwise, the oracle evicts nobody, and the nodes of a world declare no features.
var leftOut = []string{
	names.DynamicResources, names.NodeVolumeLimits, names.DefaultPreemption, names.NodeDeclaredFeatures,
}

// bench is the scheduling framework with its plugins, set up once; worlds are laid on it one after the other.
type bench struct {
	framework framework.Framework
	scorers   []scorer
	snapshot  *swappedLister
	stores    stores
}

// scorer is a score plugin with its weight in the default profile.
type scorer struct {
	fwk.ScorePlugin
	weight int64
}

// swappedLister is the snapshot that the plugins keep a pointer to.
type swappedLister struct {
	fwk.SharedLister
}

// refusal is why a node, or every node, cannot have the pod.
type refusal struct {
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

// score is what one plugin gives one node: as the plugin counts, and from 0 to 100.
type score struct {
	Raw        int64 `json:"raw"`
	Normalized int64 `json:"normalized"`
	Weight     int64 `json:"weight"`
}

// verdict is the answer to a world.
type verdict struct {
	Feasible  []string                    `json:"feasible"`
	Refused   map[string]refusal          `json:"refused"`
	PreFilter *refusal                    `json:"prefilter"`
	Scores    map[string]map[string]score `json:"scores"`
}

func newBench(ctx context.Context) (*bench, error) {
	metrics.Register()
	profile, err := askedProfile()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://nowhere.invalid"}) // plugins ask for one, and use it only to bind
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	made := &bench{snapshot: &swappedLister{cache.NewEmptySnapshot()}, stores: newStores(factory)}
	registry := plugins.NewInTreeRegistry()
	built := map[string]fwk.Plugin{}
	for name, build := range registry {
		registry[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := build(ctx, args, handle)
			built[name] = plugin
			return plugin, err
		}
	}
	made.framework, err = frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(made.snapshot),
		frameworkruntime.WithParallelism(1),
	)
	if err != nil {
		return nil, err
	}
	for _, item := range profile.Plugins.MultiPoint.Enabled {
		if plugin, ok := built[item.Name].(fwk.ScorePlugin); ok {
			made.scorers = append(made.scorers, scorer{plugin, int64(item.Weight)})
		}
	}
	return made, nil
}

// askedProfile returns the profile that a kube-scheduler without any configuration runs, less what is left out.
func askedProfile() (*config.KubeSchedulerProfile, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := &defaults.Profiles[0]
	enabled := &profile.Plugins.MultiPoint.Enabled
	*enabled = slices.DeleteFunc(*enabled, func(p config.Plugin) bool { return slices.Contains(leftOut, p.Name) })
	return profile, nil
}

// judge asks PreFilter, Filter, PreScore and Score, in the way that kube-scheduler asks them.
func (b *bench) judge(ctx context.Context, world *world) (*verdict, error) {
	b.stores.load(world)
	b.snapshot.SharedLister = cache.NewSnapshot(world.Pods, world.Nodes)
	state := framework.NewCycleState()
	found := &verdict{Feasible: []string{}, Refused: map[string]refusal{}, Scores: map[string]map[string]score{}}

	allowed, status, restricting := b.framework.RunPreFilterPlugins(ctx, state, world.Pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, status.AsError()
		}
		found.PreFilter = refusalOf(status)
		return found, nil
	}
	nodes, err := b.feasible(ctx, state, world.Pod, allowed, restricting.UnsortedList(), found)
	if err != nil || len(nodes) == 0 {
		return found, err
	}
	return found, b.score(ctx, state, world.Pod, nodes, found)
}

// feasible asks the filters about each node and returns those that none of them refuses.
func (b *bench) feasible(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, allowed *fwk.PreFilterResult, restricting []string, found *verdict,
) (feasible []fwk.NodeInfo, err error) {
	nodes, err := b.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	slices.Sort(restricting)
	for _, node := range nodes {
		name := node.Node().Name
		if !allowed.AllNodes() && !allowed.NodeNames.Has(name) {
			reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", restricting)
			found.Refused[name] = refusal{restricting[0], fwk.UnschedulableAndUnresolvable.String(), []string{reason}}
			continue
		}
		status := b.framework.RunFilterPlugins(ctx, state, pod, node)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
			found.Feasible = append(found.Feasible, name)
		case status.IsRejected():
			found.Refused[name] = *refusalOf(status)
		default:
			return nil, status.AsError()
		}
	}
	slices.Sort(found.Feasible)
	return feasible, nil
}

// score asks the score plugins that have something to say about the pod.
func (b *bench) score(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, found *verdict,
) error {
	if status := b.framework.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		return status.AsError()
	}
	for _, node := range nodes {
		found.Scores[node.Node().Name] = map[string]score{}
	}
	for _, plugin := range b.scorers {
		if state.GetSkipScorePlugins().Has(plugin.Name()) {
			continue
		}
		if err := plugin.scoreAll(ctx, state, pod, nodes, found); err != nil {
			return err
		}
	}
	return nil
}

func (s scorer) scoreAll(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, found *verdict,
) error {
	raw := make(fwk.NodeScoreList, len(nodes))
	for i, node := range nodes {
		value, status := s.Score(ctx, state, pod, node)
		if !status.IsSuccess() {
			return fmt.Errorf("%s: %w", s.Name(), status.AsError())
		}
		raw[i] = fwk.NodeScore{Name: node.Node().Name, Score: value}
	}
	normalized := slices.Clone(raw)
	if extensions := s.ScoreExtensions(); extensions != nil {
		if status := extensions.NormalizeScore(ctx, state, pod, normalized); !status.IsSuccess() {
			return fmt.Errorf("%s: %w", s.Name(), status.AsError())
		}
	}
	for i := range raw {
		found.Scores[raw[i].Name][s.Name()] = score{raw[i].Score, normalized[i].Score, s.weight}
	}
	return nil
}

func refusalOf(status *fwk.Status) *refusal {
	return &refusal{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: status.Reasons()}
}
