//! The cases, one module per area or group of areas.

/// Lists the cases of a module in the order in which they run: `area!("get": first, second; "list": third);`
macro_rules! area {
    ($($area:literal: $($name:ident),+ $(,)?);+ $(;)?) => {
        pub(crate) fn cases() -> Vec<crate::Case> {
            vec![$($(crate::Case { area: $area, name: stringify!($name), run: |ctx| Box::pin($name(ctx)) }),+),+]
        }
    };
}

mod bodies;
mod create;
mod custom;
mod custom_subresources;
mod definitions;
mod delete;
mod discovery;
mod dry_run;
mod fixtures;
mod guards;
mod history;
mod kinds;
mod meta;
mod namespaces_and_nodes;
mod patch;
mod pods;
mod rbac;
mod read;
mod selectors;
mod tables;
mod unclassified;
mod update;
mod watch;
mod workloads;

pub(crate) fn all() -> Vec<crate::Case> {
    let areas = [
        create::cases,
        read::cases,
        update::cases,
        patch::cases,
        delete::cases,
        selectors::cases,
        watch::cases,
        tables::cases,
        dry_run::cases,
        discovery::cases,
        bodies::cases,
        definitions::cases,
        custom::cases,
        custom_subresources::cases,
        pods::cases,
        namespaces_and_nodes::cases,
        kinds::cases,
        rbac::cases,
        workloads::cases,
        meta::cases,
        guards::cases,
        unclassified::cases,
        history::cases,
    ];
    areas.into_iter().flat_map(|cases| cases()).collect()
}
