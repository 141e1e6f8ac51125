// The scheduler's own filters, asked from outside: cases come as lines of JSON on standard input, and for each one a
// line goes out that says which filters refuse which nodes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// A pod, and the cluster it is to go to. Names of objects are different in every case.
type question struct {
	Pod            v1.Pod                      `json:"pod"`
	Pods           []*v1.Pod                   `json:"pods"`
	Nodes          []*v1.Node                  `json:"nodes"`
	CSINodes       []*storagev1.CSINode        `json:"csiNodes"`
	Claims         []*v1.PersistentVolumeClaim `json:"claims"`
	Volumes        []*v1.PersistentVolume      `json:"volumes"`
	StorageClasses []*storagev1.StorageClass   `json:"storageClasses"`
	Namespaces     []*v1.Namespace             `json:"namespaces"`
}

// By node: the filters that refuse it. Fits is what the scheduler says that runs them one after the other.
type verdict struct {
	Refused []string `json:"refused"`
	Fits    bool     `json:"fits"`
	Why     string   `json:"why,omitempty"`
}

var filters = []string{
	names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts,
	names.NodeResourcesFit, names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding,
	names.VolumeZone, names.PodTopologySpread, names.InterPodAffinity,
}

// The cluster of the case that is being answered.
type current struct{ snapshot *cache.Snapshot }

func (c *current) NodeInfos() fwk.NodeInfoLister           { return c.snapshot.NodeInfos() }
func (c *current) StorageInfos() fwk.StorageInfoLister     { return c.snapshot.StorageInfos() }
func (c *current) PodGroupStates() fwk.PodGroupStateLister { return c.snapshot.PodGroupStates() }

func read() ([]question, []runtime.Object, error) {
	var questions []question
	var objects []runtime.Object
	decoder := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
	for decoder.More() {
		var q question
		if err := decoder.Decode(&q); err != nil {
			return nil, nil, fmt.Errorf("case %d: %w", len(questions), err)
		}
		for _, o := range q.Nodes {
			objects = append(objects, o)
		}
		for _, o := range q.CSINodes {
			objects = append(objects, o)
		}
		for _, o := range q.Claims {
			objects = append(objects, o)
		}
		for _, o := range q.Volumes {
			objects = append(objects, o)
		}
		for _, o := range q.StorageClasses {
			objects = append(objects, o)
		}
		for _, o := range q.Namespaces {
			objects = append(objects, o)
		}
		// The scheduler does not even see pods that have ended.
		q.Pods = slices.DeleteFunc(q.Pods, func(pod *v1.Pod) bool {
			return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		})
		questions = append(questions, q)
	}
	return questions, objects, nil
}

type judge struct {
	here      *current
	framework framework.Framework
	plugins   map[string]fwk.Plugin
}

func newJudge(ctx context.Context, objects []runtime.Object) (*judge, error) {
	metrics.Register()
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	set := config.PluginSet{}
	for _, name := range filters {
		set.Enabled = append(set.Enabled, config.Plugin{Name: name})
	}
	// Filters that look at nothing beforehand have no part in that.
	before := config.PluginSet{}
	for _, name := range filters {
		switch name {
		case names.NodeUnschedulable, names.NodeName, names.TaintToleration:
		default:
			before.Enabled = append(before.Enabled, config.Plugin{Name: name})
		}
	}
	profile := defaults.Profiles[0]
	profile.Plugins = &config.Plugins{
		QueueSort: config.PluginSet{Enabled: []config.Plugin{{Name: names.PrioritySort}}},
		Bind:      config.PluginSet{Enabled: []config.Plugin{{Name: names.DefaultBinder}}},
		PreFilter: before,
		Filter:    set,
	}
	j := &judge{here: &current{cache.NewEmptySnapshot()}, plugins: map[string]fwk.Plugin{}}
	registry := plugins.NewInTreeRegistry()
	for _, name := range filters {
		make := registry[name]
		registry[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := make(ctx, args, handle)
			j.plugins[name] = plugin
			return plugin, err
		}
	}
	j.framework, err = frameworkruntime.NewFramework(ctx, registry, &profile,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(j.here),
		frameworkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	)
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return j, nil
}

// What one filter alone says of every node. Where it cannot say, the scheduler does not bind the pod either.
func (j *judge) alone(ctx context.Context, name string, pod *v1.Pod, nodes []fwk.NodeInfo) map[string]string {
	refused := map[string]string{}
	state := framework.NewCycleState()
	if before, ok := j.plugins[name].(fwk.PreFilterPlugin); ok {
		result, status := before.PreFilter(ctx, state, pod, nodes)
		switch {
		case status.IsSkip():
			return refused
		case status.IsRejected() || status.Code() == fwk.Error:
			for _, node := range nodes {
				refused[node.Node().Name] = status.Message()
			}
			return refused
		}
		if !result.AllNodes() {
			for _, node := range nodes {
				if !result.NodeNames.Has(node.Node().Name) {
					refused[node.Node().Name] = "not among the nodes it could go to"
				}
			}
		}
	}
	filter := j.plugins[name].(fwk.FilterPlugin)
	for _, node := range nodes {
		status := filter.Filter(ctx, state, pod, node)
		if !status.IsSuccess() {
			refused[node.Node().Name] = status.Message()
		}
	}
	return refused
}

// The nodes that all filters together accept, as the scheduler runs them.
func (j *judge) together(ctx context.Context, pod *v1.Pod, nodes []fwk.NodeInfo) map[string]bool {
	fits := map[string]bool{}
	state := framework.NewCycleState()
	result, status, _ := j.framework.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return fits
	}
	for _, node := range nodes {
		name := node.Node().Name
		if !result.AllNodes() && !result.NodeNames.Has(name) {
			continue
		}
		fits[name] = j.framework.RunFilterPlugins(ctx, state, pod, node).IsSuccess()
	}
	return fits
}

func (j *judge) answer(ctx context.Context, q *question) (map[string]*verdict, error) {
	j.here.snapshot = cache.NewSnapshot(q.Pods, q.Nodes)
	nodes, err := j.here.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	fits := j.together(ctx, &q.Pod, nodes)
	answers := map[string]*verdict{}
	for _, node := range nodes {
		answers[node.Node().Name] = &verdict{Refused: []string{}, Fits: fits[node.Node().Name]}
	}
	for _, name := range filters {
		for node, why := range j.alone(ctx, name, &q.Pod, nodes) {
			answers[node].Refused = append(answers[node].Refused, name)
			answers[node].Why += name + ": " + why + "; "
		}
	}
	for _, answer := range answers {
		slices.Sort(answer.Refused)
	}
	return answers, nil
}

func run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	questions, objects, err := read()
	if err != nil {
		return err
	}
	j, err := newJudge(ctx, objects)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for at := range questions {
		answers, err := j.answer(ctx, &questions[at])
		if err != nil {
			return fmt.Errorf("case %d: %w", at, err)
		}
		if err := encoder.Encode(answers); err != nil {
			return err
		}
	}
	return out.Flush()
}

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: cases as lines of JSON in, verdicts as lines of JSON out")
	}
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
