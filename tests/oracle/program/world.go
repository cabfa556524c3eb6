package main

import (
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	kjson "sigs.k8s.io/json"
)

// world is what a scheduler would see: Pods are those in the cluster, Pod the one to be placed.
type world struct {
	Pod  *v1.Pod   `json:"pod"`
	Pods []*v1.Pod `json:"pods"`

	Nodes                  []*v1.Node                      `json:"nodes"`
	Namespaces             []*v1.Namespace                 `json:"namespaces"`
	PersistentVolumes      []*v1.PersistentVolume          `json:"pvs"`
	PersistentVolumeClaims []*v1.PersistentVolumeClaim     `json:"pvcs"`
	StorageClasses         []*storagev1.StorageClass       `json:"storageClasses"`
	CSINodes               []*storagev1.CSINode            `json:"csiNodes"`
	CSIDrivers             []*storagev1.CSIDriver          `json:"csiDrivers"`
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity `json:"csiStorageCapacities"`

	// These count only for the spread that Kubernetes wants for pods which ask for none.
	Services               []*v1.Service               `json:"services"`
	ReplicationControllers []*v1.ReplicationController `json:"replicationControllers"`
	ReplicaSets            []*appsv1.ReplicaSet        `json:"replicaSets"`
	StatefulSets           []*appsv1.StatefulSet       `json:"statefulSets"`
}

// parseWorld reads a world and makes its objects what the API server would have stored. Unknown fields are an error:
// a field that the oracle does not see would be judged as if nobody had set it.
func parseWorld(line []byte) (*world, error) {
	parsed := &world{}
	strict, err := kjson.UnmarshalStrict(line, parsed)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("not a world: %w", err)
	}
	if parsed.Pod == nil {
		return nil, errors.New("not a world: it has no pod")
	}
	parsed.store()
	parsed.Pods = slices.DeleteFunc(parsed.Pods, func(pod *v1.Pod) bool { return !parsed.holdsRoom(pod) })
	return parsed, nil
}

// holdsRoom tells whether the scheduler's cache would have the pod on a node.
func (w *world) holdsRoom(pod *v1.Pod) bool {
	ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
	isHere := func(node *v1.Node) bool { return node.Name == pod.Spec.NodeName }
	return !ended && slices.ContainsFunc(w.Nodes, isHere)
}

// store fills in what the API server does when it stores an object.
func (w *world) store() {
	number := 0
	for _, kind := range w.objects() {
		for _, object := range kind.objects {
			number++
			legacyscheme.Scheme.Default(object)
			meta := object.(metav1.Object)
			if meta.GetResourceVersion() == "" {
				meta.SetResourceVersion(fmt.Sprint(number))
			}
			if kind.namespaced && meta.GetNamespace() == "" {
				meta.SetNamespace(metav1.NamespaceDefault)
			}
		}
	}
	for _, pod := range append([]*v1.Pod{w.Pod}, w.Pods...) {
		if pod.UID == "" {
			pod.UID = uidOf(pod)
		}
		mergeLabelKeys(pod)
	}
}

// kind is all objects of one type, and the type as informers are asked for it.
type kind struct {
	example    runtime.Object
	namespaced bool
	objects    []runtime.Object
}

// objects returns every object of the world.
func (w *world) objects() []kind {
	return []kind{
		{&v1.Pod{}, true, objectsOf(append([]*v1.Pod{w.Pod}, w.Pods...))},
		{&v1.Node{}, false, objectsOf(w.Nodes)},
		{&v1.Namespace{}, false, objectsOf(w.Namespaces)},
		{&v1.PersistentVolume{}, false, objectsOf(w.PersistentVolumes)},
		{&v1.PersistentVolumeClaim{}, true, objectsOf(w.PersistentVolumeClaims)},
		{&storagev1.StorageClass{}, false, objectsOf(w.StorageClasses)},
		{&storagev1.CSINode{}, false, objectsOf(w.CSINodes)},
		{&storagev1.CSIDriver{}, false, objectsOf(w.CSIDrivers)},
		{&storagev1.CSIStorageCapacity{}, true, objectsOf(w.CSIStorageCapacities)},
		{&v1.Service{}, true, objectsOf(w.Services)},
		{&v1.ReplicationController{}, true, objectsOf(w.ReplicationControllers)},
		{&appsv1.ReplicaSet{}, true, objectsOf(w.ReplicaSets)},
		{&appsv1.StatefulSet{}, true, objectsOf(w.StatefulSets)},
	}
}

func objectsOf[T runtime.Object](items []T) []runtime.Object {
	objects := make([]runtime.Object, len(items))
	for i, item := range items {
		objects[i] = item
	}
	return objects
}
