//! Names in a spec, looked up in what the cloud has: first as identifiers, then as names that only one has.

use crate::{names::error, validate::Problem};

/// Something that the cloud has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    pub identifier: String,
    pub name: String,
}

/// So many are named when one is not found.
const NAMED: usize = 10;

/// The one that is meant.
pub fn resolve<'a>(
    field: &str,
    wanted: &str,
    there_are: &'a [Named],
    missing: &str,
) -> Result<&'a Named, Problem> {
    if let Some(found) = there_are.iter().find(|one| one.identifier.eq_ignore_ascii_case(wanted)) {
        return Ok(found);
    }
    let by_name: Vec<&Named> = there_are.iter().filter(|one| one.name.eq_ignore_ascii_case(wanted)).collect();
    match by_name.as_slice() {
        [one] => Ok(one),
        [] => Err(Problem::new(field, format!("{missing}: {wanted}; there is {}", list(there_are)))),
        several => {
            let ids: Vec<&str> = several.iter().map(|one| one.identifier.as_str()).collect();
            let told =
                format!("several are called {wanted}: write one of the identifiers {}", ids.join(", "));
            Err(Problem::new(field, told))
        }
    }
}

fn list(there_are: &[Named]) -> String {
    let mut names: Vec<&str> = there_are
        .iter()
        .map(|one| if one.name.is_empty() { one.identifier.as_str() } else { one.name.as_str() })
        .collect();
    names.sort_unstable();
    names.dedup();
    match names.len() {
        0 => "none".to_owned(),
        count if count > NAMED => format!("{}, … ({count} in all)", names[..NAMED].join(", ")),
        _ => names.join(", "),
    }
}

/// What a NodeGroup names, and what the cloud has of it.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue<'a> {
    pub datacenters: &'a [Named],
    /// In the datacenter, for the image; nothing as long as it is not known.
    pub offerings: Option<&'a [Named]>,
    pub images: &'a [Named],
    pub keys: &'a [Named],
}

/// What a spec means, with everything in it that means nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meant {
    pub datacenter: Option<Named>,
    /// As the spec has them, with what they are; those that the datacenter does not have are left out.
    pub offerings: Vec<(String, Named)>,
    pub image: Option<Named>,
    pub keys: Vec<Named>,
    pub problems: Vec<Problem>,
}

impl Meant {
    /// Whether VPSs can be ordered: an offering that is missing leaves the others.
    pub fn is_enough(&self) -> bool {
        let foundation = |problem: &Problem| !problem.field.starts_with("spec.offeringIDs");
        !self.offerings.is_empty() && !self.problems.iter().any(foundation)
    }
}

pub fn meant(spec: &crate::api::NodeGroupSpec, catalogue: Catalogue<'_>) -> Meant {
    let mut meant = Meant::default();
    let datacenter =
        resolve("spec.datacenterID", &spec.datacenter_id, catalogue.datacenters, error::DATACENTER_NOT_FOUND);
    meant.datacenter = note(datacenter, &mut meant.problems);
    let image = resolve("spec.osImageID", &spec.os_image_id, catalogue.images, "OS image not found");
    meant.image = note(image, &mut meant.problems);
    for (at, key) in spec.ssh_key_ids.iter().enumerate() {
        let found = resolve(&format!("spec.sshKeyIDs[{at}]"), key, catalogue.keys, "SSH key not found");
        meant.keys.extend(note(found, &mut meant.problems));
    }
    let Some(offerings) = catalogue.offerings else { return meant };
    for (at, wanted) in spec.offering_ids.iter().enumerate() {
        let found = resolve(&format!("spec.offeringIDs[{at}]"), wanted, offerings, error::NOT_AVAILABLE);
        let found = note(found, &mut meant.problems);
        meant.offerings.extend(found.map(|found| (wanted.clone(), found)));
    }
    meant
}

fn note(found: Result<&Named, Problem>, problems: &mut Vec<Problem>) -> Option<Named> {
    match found {
        Ok(found) => Some(found.clone()),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::NodeGroupSpec;

    fn named(pairs: &[(&str, &str)]) -> Vec<Named> {
        pairs
            .iter()
            .map(|(identifier, name)| Named { identifier: (*identifier).into(), name: (*name).into() })
            .collect()
    }

    #[test]
    fn identifiers_go_before_names_and_a_name_has_to_be_one_things_alone() {
        let all = named(&[("u-1", "small"), ("u-2", "u-1"), ("u-3", "twice"), ("u-4", "Twice"), ("u-5", "")]);
        let found = |wanted: &str| {
            resolve("f", wanted, &all, "not found")
                .map(|one| one.identifier.clone())
                .map_err(|problem| problem.to_string())
        };
        let ok = |id: &str| Ok(id.to_owned());
        assert_eq!(found("u-1"), ok("u-1"));
        assert_eq!(found("U-5"), ok("u-5"));
        assert_eq!(found("Small"), ok("u-1"));
        assert_eq!(
            found("twice"),
            Err("f: several are called twice: write one of the identifiers u-3, u-4".into())
        );
        assert_eq!(found("huge"), Err("f: not found: huge; there is Twice, small, twice, u-1, u-5".into()));
        assert_eq!(
            resolve("f", "x", &[], "not found").unwrap_err().to_string(),
            "f: not found: x; there is none"
        );
        let many: Vec<Named> = (0..12)
            .map(|number| Named { identifier: format!("u{number:02}"), name: String::new() })
            .collect();
        let told = resolve("f", "x", &many, "not found").unwrap_err().message;
        assert!(told.ends_with("u08, u09, … (12 in all)"), "{told}");
    }

    #[test]
    fn everything_that_means_nothing_is_named_with_what_there_is() {
        let spec = |datacenter: &str, image: &str, offerings: &[&str], keys: &[&str]| NodeGroupSpec {
            datacenter_id: datacenter.into(),
            os_image_id: image.into(),
            offering_ids: offerings.iter().map(ToString::to_string).collect(),
            ssh_key_ids: keys.iter().map(ToString::to_string).collect(),
            ..NodeGroupSpec::default()
        };
        let (datacenters, images) =
            (named(&[("d-1", "dc-us-east-1")]), named(&[("i-1", "ubuntu-22.04-lts")]));
        let (offerings, keys) = (named(&[("o-1", "small"), ("o-2", "large")]), named(&[("k-1", "ann")]));
        let catalogue = Catalogue {
            datacenters: &datacenters,
            offerings: Some(&offerings),
            images: &images,
            keys: &keys,
        };
        let good = meant(&spec("dc-us-east-1", "i-1", &["large", "o-1"], &["ann"]), catalogue);
        let ids: Vec<_> =
            good.offerings.iter().map(|(own, one)| (own.as_str(), one.identifier.as_str())).collect();
        assert_eq!(
            (ids, good.problems.len(), good.is_enough()),
            (vec![("large", "o-2"), ("o-1", "o-1")], 0, true)
        );
        assert_eq!(
            (good.datacenter.unwrap().identifier, good.image.unwrap().identifier),
            ("d-1".into(), "i-1".into())
        );

        let bad = meant(&spec("dc-mars", "plan9", &["small", "huge"], &["ann", "bob"]), catalogue);
        let told: Vec<String> = bad.problems.iter().map(ToString::to_string).collect();
        let expected = [
            "spec.datacenterID: Datacenter not found: dc-mars; there is dc-us-east-1",
            "spec.osImageID: OS image not found: plan9; there is ubuntu-22.04-lts",
            "spec.sshKeyIDs[1]: SSH key not found: bob; there is ann",
            "spec.offeringIDs[1]: Instance type not available: huge; there is large, small",
        ];
        assert_eq!((told, bad.is_enough()), (expected.map(str::to_owned).to_vec(), false));
        let partly = meant(&spec("d-1", "i-1", &["small", "huge"], &[]), catalogue);
        assert!(partly.is_enough(), "the other offering will do");
        let none = meant(&spec("d-1", "i-1", &["huge"], &[]), catalogue);
        assert!(!none.is_enough());
        let unknown =
            meant(&spec("dc-mars", "i-1", &["small"], &[]), Catalogue { offerings: None, ..catalogue });
        assert_eq!(unknown.problems.len(), 1, "offerings are not looked at where there is no datacenter");
    }
}
