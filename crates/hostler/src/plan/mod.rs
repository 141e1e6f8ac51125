//! `hostler plan`: the planner on what kubectl prints of a cluster.

mod cheaper;
mod groups;
mod json;
mod table;

use anyhow::{Context, anyhow, bail};
use cheaper::Cheaper;
use clap::{Args, ValueEnum};
use groups::Catalogue;
use hostler_planner::model::{Cluster, Node, Time};
use hostler_planner::{NodeVerdict, ScaleDown, ScaleUp, scale_down, scale_up};
use hostler_snapshot::{Dump, documents};
use k8s_openapi::jiff::Timestamp;
use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// What to ask kubectl for.
const HELP: &str = "\
The files are what this prints, as YAML or with -o json:

  kubectl get nodes,pods,daemonsets,pdb,pv,pvc,storageclasses,csinodes,priorityclasses,namespaces -A -o yaml

There may be several, of any of these kinds, and a dash is standard input. NodeGroups among them are groups as those of
--groups are. Nothing is installed and nothing is changed: the cluster is not asked.

A file for --groups:

  offerings:                       # what can be bought
  - name: small
    cpu: 2                         # the size that is sold; what a node keeps for itself is taken off
    memory: 4Gi
    monthly: 12.00                 # or hourly: 0.0164
    zones: [a, b]                  # may be left out
  groups:
  - name: workers
    minNodes: 1
    maxNodes: 10
    offeringIDs: [small]
    nodeSelector: { pool: workers }  # labels of the nodes that belong to it
    consolidationPolicy: { enabled: true }  # may replace nodes by cheaper ones; off if left out

docs/plan.md has all fields.";

#[derive(Args)]
#[command(after_help = HELP)]
pub struct Options {
    /// What kubectl printed, or a dash.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Groups of nodes and what can be bought for them; also NodeGroup manifests. Can be given several times.
    #[arg(long, value_name = "FILE")]
    groups: Vec<PathBuf>,
    /// The time of the plan, such as 2026-11-18T12:00:00Z; the newest one in the files if not given.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// Looks at the nodes for the first time: none was found not to be needed for long enough. Without it that time is
    /// taken to have passed, since the files do not say.
    #[arg(long)]
    first_look: bool,
    /// How the plan is printed.
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// Everything there is to print.
struct Planned {
    cluster: Cluster,
    warnings: Vec<String>,
    up: ScaleUp,
    down: ScaleDown,
    cheaper: Cheaper,
}

impl Planned {
    /// What the consolidation says of nodes that the scale-down leaves.
    fn looked_at(&self) -> Vec<&NodeVerdict> {
        let verdicts = self.cheaper.plan.nodes.iter();
        verdicts.filter(|verdict| !self.down.removed.contains(&verdict.node)).collect()
    }
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let planned = plan(options)?;
    for warning in &planned.warnings {
        eprintln!("hostler: {warning}");
    }
    let text = match options.output {
        Output::Table => table::render(&planned),
        Output::Json => json::render(&planned)?,
    };
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever read has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("the plan cannot be written to standard output"),
    }
}

fn plan(options: &Options) -> anyhow::Result<Planned> {
    let mut dump = Dump::default();
    for path in &options.files {
        let name = path.display();
        for document in read(path)? {
            dump.add(document).with_context(|| name.to_string())?;
        }
    }
    let mut catalogue = Catalogue::default();
    for path in &options.groups {
        for document in read(path)? {
            catalogue.add(document).map_err(|fault| anyhow!("{}: {fault}", path.display()))?;
        }
    }
    for document in std::mem::take(&mut dump.node_groups) {
        catalogue.add(document).map_err(|fault| anyhow!("{fault}"))?;
    }
    let mut warnings = Vec::new();
    let now: Time = match (options.now, dump.newest()) {
        (Some(now), _) => now.as_second(),
        (None, Some(newest)) => newest,
        (None, None) => bail!("no object says when it was made: say what time it is with --now"),
    };
    for (kind, count) in &dump.ignored {
        warnings.push(format!("{kind} is not looked at ({count} of them)"));
    }
    let loaded = dump.load(now)?;
    for kind in loaded.missing {
        warnings.push(format!(
            "there are no {} in the files: if the cluster has some, {}",
            kind.resource, kind.without
        ));
    }
    let mut cluster = loaded.cluster;
    cluster.settings.limits = catalogue.limits()?;
    cluster.groups = catalogue.groups().map_err(|fault| anyhow!("{fault}"))?;
    if cluster.groups.is_empty() {
        warnings.push(
            "there are no groups, so nothing can be bought or given back: name them with --groups".to_owned(),
        );
    }
    for node in &mut cluster.nodes {
        catalogue.settle(node);
        if !options.first_look {
            node.unneeded_since = Some(Time::MIN / 2);
        }
    }
    warnings.extend(strangers(&cluster));
    let (up, down) = (scale_up(&cluster), scale_down(&cluster));
    let cheaper = Cheaper::new(&cluster, &up, &down);
    Ok(Planned { cluster, warnings, up, down, cheaper })
}

/// Nodes whose price is not known although they are of a group.
fn strangers(cluster: &Cluster) -> Vec<String> {
    let unknown = |node: &&Node| {
        let group = cluster.groups.iter().find(|group| Some(&group.name) == node.group.as_ref());
        group.is_some_and(|group| {
            !group.offerings.iter().any(|offering| Some(&offering.name) == node.offering.as_ref())
        })
    };
    let told = |node: &Node| {
        let group = node.group.as_deref().unwrap_or_default();
        let kind = node.offering.as_deref().unwrap_or("unknown");
        format!(
            "node {} of group {group} is of type {kind}, which the group does not buy: its price is not known",
            node.name
        )
    };
    cluster.nodes.iter().filter(unknown).map(told).collect()
}

fn read(path: &Path) -> anyhow::Result<Vec<serde_json::Value>> {
    let name = path.display();
    let mut text = String::new();
    if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).context("standard input cannot be read")?;
    } else {
        text = fs::read_to_string(path).with_context(|| format!("{name} cannot be read"))?;
    }
    documents(&text).map_err(|error| anyhow!("{name} is neither YAML nor JSON: {}", first_line(&error)))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
