# What there is to do here, for people who use `just`. Each recipe is one command that works without it too.

# Where the machine controller finds STACKIT: what the environment says, else the simulated one of `just sim`.
export STACKIT_IAAS_ENDPOINT := env('STACKIT_IAAS_ENDPOINT', 'http://127.0.0.1:8480')

# Shows the recipes.
default:
    @just --list

# A small world to try things in: a Kubernetes API, nodes, a simulated STACKIT and all controllers.
dev *arguments:
    cargo run --release -- dev {{arguments}}

# The machine controller as a process of its own, on the cluster of KUBECONFIG.
start *arguments:
    cargo run -- machine-controller --target-kubeconfig "${KUBECONFIG:?name a kubeconfig}" {{arguments}}

# A simulated STACKIT alone, as a mock server for other processes.
sim *arguments:
    cargo run -- sim stackit {{arguments}}

# A real control plane: etcd, kube-apiserver, and with `--with mcm` Gardener's manager.
control-plane *arguments:
    cargo xtask control-plane up {{arguments}}

# Prints the CustomResourceDefinitions.
crds:
    cargo run -- crds

# Formatting, lints and all tests; with names only some tests.
test *names:
    cargo xtask test {{names}}

# The tests on a real control plane.
test-real *names:
    cargo xtask test real {{names}}

# Formats the code.
fmt:
    cargo fmt --all

# The benchmarks.
bench *names:
    cargo xtask bench {{names}}

# A container image, without a container engine.
image *arguments:
    cargo xtask image {{arguments}}
