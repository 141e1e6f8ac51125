// Karpenter's own scheduler, asked from outside: a list of pods comes as JSON on standard input, and out goes what it
// could buy, what it would buy, and how much processor time it took to find out. With -generate it makes the pods of
// Karpenter's benchmark instead, as JSON for whoever is to be compared with it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/test"
)

// An offering: a type in a zone.
type offering struct {
	Name        string              `json:"name"`
	Zone        string              `json:"zone"`
	Price       float64             `json:"price"`
	Capacity    corev1.ResourceList `json:"capacity"`
	Allocatable corev1.ResourceList `json:"allocatable"`
}

type outcome struct {
	Seconds  float64 `json:"seconds"`
	Nodes    int     `json:"nodes"`
	Price    float64 `json:"price"`
	Unplaced int     `json:"unplaced"`
}

type answer struct {
	Offerings []offering `json:"offerings"`
	Runs      []outcome  `json:"runs"`
}

// Seconds of processor time of this process, its collector of garbage included.
func spent() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// Everything is new for every run: a scheduler remembers what it has planned.
func solve(pods []*corev1.Pod, types []*cloudprovider.InstanceType) (outcome, error) {
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), test.Options())
	pool := test.NodePool(v1.NodePool{Spec: v1.NodePoolSpec{Limits: v1.Limits{
		corev1.ResourceCPU:    resource.MustParse("10000000"),
		corev1.ResourceMemory: resource.MustParse("10000000Gi"),
	}}})
	pools := []*v1.NodePool{pool}
	byPool := map[string][]*cloudprovider.InstanceType{pool.Name: types}
	cloud := fake.NewCloudProvider()
	cloud.InstanceTypes = types
	client := fakeclient.NewFakeClient()
	now := &clock.RealClock{}
	cluster := state.NewCluster(now, client, cloud)
	workers := scheduling.NumConcurrentReconciles(5)
	topology, err := scheduling.NewTopology(ctx, client, cluster, nil, pools, byPool, pods, workers)
	if err != nil {
		return outcome{}, err
	}
	scheduler := scheduling.NewScheduler(ctx, client, pools, cluster, nil, topology, byPool, nil,
		events.NewRecorder(&record.FakeRecorder{}), now, nil, nil, workers)
	before := spent()
	results, err := scheduler.Solve(ctx, pods)
	took := spent() - before
	if err != nil {
		return outcome{}, err
	}
	found := outcome{Seconds: took, Nodes: len(results.NewNodeClaims), Unplaced: len(results.PodErrors)}
	for _, claim := range results.NewNodeClaims {
		cheapest := 0.0
		for _, kind := range claim.InstanceTypeOptions {
			for _, own := range kind.Offerings.Available().Compatible(claim.Requirements) {
				if cheapest == 0 || own.Price < cheapest {
					cheapest = own.Price
				}
			}
		}
		found.Price += cheapest
	}
	return found, nil
}

func offerings(types []*cloudprovider.InstanceType) []offering {
	var all []offering
	for _, kind := range types {
		seen := map[string]bool{}
		for _, own := range kind.Offerings.Available() {
			// Offerings that differ in how they are paid for cost the same here.
			zone := own.Zone()
			if seen[zone] {
				continue
			}
			seen[zone] = true
			all = append(all, offering{kind.Name, zone, own.Price, kind.Capacity, kind.Allocatable()})
		}
	}
	return all
}

func run(runs int) error {
	var list corev1.PodList
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		return err
	}
	log.SetLogger(logging.NopLogger)
	answer := answer{Offerings: offerings(fake.InstanceTypes(400))}
	for range runs {
		var pods []*corev1.Pod
		for at := range list.Items {
			pods = append(pods, list.Items[at].DeepCopy())
		}
		found, err := solve(pods, fake.InstanceTypes(400))
		if err != nil {
			return err
		}
		answer.Runs = append(answer.Runs, found)
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// The pods of Karpenter's benchmark: its seed, its sizes, its labels, its five kinds, a fifth of the pods each, and plain
// ones for what is left by the division. The generator itself is part of a test there and cannot be imported.
type generator struct {
	chance *rand.Rand
	pods   []corev1.Pod
}

func (g *generator) letter() string {
	return string("abcdefg"[g.chance.Intn(7)])
}

func (g *generator) requests() corev1.ResourceList {
	cpu := []string{"100m", "250m", "500m", "1000m", "1500m"}
	memory := []string{"100Mi", "256Mi", "512Mi", "1024Mi", "2048Mi", "4096Mi"}
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu[g.chance.Intn(len(cpu))]),
		corev1.ResourceMemory: resource.MustParse(memory[g.chance.Intn(len(memory))]),
	}
}

func (g *generator) add(labels map[string]string, with func(*corev1.PodSpec)) {
	name := fmt.Sprintf("pod-%d", len(g.pods))
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: labels,
			CreationTimestamp: metav1.NewTime(time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: g.requests()},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			}},
		},
	}
	with(&pod.Spec)
	g.pods = append(g.pods, pod)
}

func matching(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func (g *generator) plain() {
	g.add(map[string]string{"my-label": g.letter()}, func(*corev1.PodSpec) {})
}

func (g *generator) spread(key string) {
	g.add(map[string]string{"my-label": g.letter()}, func(spec *corev1.PodSpec) {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: matching(map[string]string{"my-label": g.letter()}),
		}}
	})
}

func (g *generator) together() {
	labels := map[string]string{"my-affininity": g.letter()}
	g.add(labels, func(spec *corev1.PodSpec) {
		spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{LabelSelector: matching(labels), TopologyKey: corev1.LabelTopologyZone},
			},
		}}
	})
}

func (g *generator) apart() {
	labels := map[string]string{"app": "nginx"}
	g.add(labels, func(spec *corev1.PodSpec) {
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{LabelSelector: matching(labels), TopologyKey: corev1.LabelHostname},
			},
		}}
	})
}

func generate(count int) error {
	g := generator{chance: rand.New(rand.NewSource(42))}
	kinds := []func(){
		g.plain,
		func() { g.spread(corev1.LabelTopologyZone) },
		func() { g.spread(corev1.LabelHostname) },
		g.together,
		g.apart,
	}
	for _, kind := range kinds {
		for range count / len(kinds) {
			kind()
		}
	}
	for len(g.pods) < count {
		g.plain()
	}
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: g.pods}
	return json.NewEncoder(os.Stdout).Encode(list)
}

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: [-runs N], a list of pods as JSON in, plans as JSON out")
		fmt.Fprintln(flag.CommandLine.Output(), "       -generate N, a list of pods as JSON out")
	}
	runs := flag.Int("runs", 3, "how often it thinks anew")
	count := flag.Int("generate", 0, "how many pods to make")
	flag.Parse()
	if *count > 0 {
		if err := generate(*count); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := run(*runs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
