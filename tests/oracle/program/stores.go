package main

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// stores are the informers' contents. Real informers list and watch on their own threads, which would take longer for
// each world than judging it; these are filled by hand, and tell their listeners at once.
type stores map[reflect.Type]*filledInformer

// filledInformer is an informer that was never started. Methods that it lacks are none that plugins call.
type filledInformer struct {
	cache.SharedIndexInformer
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
}

// newStores registers an informer per kind of object before any plugin asks the factory for one.
func newStores(factory informers.SharedInformerFactory) stores {
	made := stores{}
	for _, kind := range (&world{}).objects() {
		indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
		informer := &filledInformer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
		made[reflect.TypeOf(kind.example)] = informer
		factory.InformerFor(kind.example, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			return informer
		})
	}
	return made
}

// load replaces what all informers hold by the objects of a world.
func (s stores) load(world *world) {
	for _, kind := range world.objects() {
		s[reflect.TypeOf(kind.example)].replace(kind.objects)
	}
}

func (f *filledInformer) replace(objects []runtime.Object) {
	for _, old := range f.indexer.List() {
		for _, handler := range f.handlers {
			handler.OnDelete(old)
		}
	}
	items := make([]any, len(objects))
	for i, object := range objects {
		items[i] = object
	}
	if err := f.indexer.Replace(items, ""); err != nil {
		panic(err) // only for an object without a name, which would be judged wrongly
	}
	for _, item := range items {
		for _, handler := range f.handlers {
			handler.OnAdd(item, true)
		}
	}
}

func (f *filledInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	f.handlers = append(f.handlers, handler)
	return nil, nil
}

func (f *filledInformer) AddIndexers(indexers cache.Indexers) error {
	return f.indexer.AddIndexers(indexers)
}
func (f *filledInformer) GetIndexer() cache.Indexer { return f.indexer }
func (f *filledInformer) GetStore() cache.Store     { return f.indexer }
func (f *filledInformer) HasSynced() bool           { return true }
