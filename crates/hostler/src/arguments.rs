//! The command line as others write it.

use std::{ffi::OsString, path::Path};

const MACHINE_CONTROLLER: &str = "machine-controller";

/// The arguments as the parser wants them: a program that is called `machine-controller`, as the images of Gardener's
/// provider binaries do, is that command, and the names of its flags may have underscores.
pub fn understood(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    let said = arguments.get(1).is_some_and(|command| command == MACHINE_CONTROLLER);
    if name.is_some_and(|name| name == MACHINE_CONTROLLER) && !said {
        arguments.insert(1, MACHINE_CONTROLLER.into());
    }
    if arguments.get(1).is_none_or(|command| command != MACHINE_CONTROLLER) {
        return arguments;
    }
    let flags = arguments.iter_mut().skip(2).take_while(|argument| *argument != "--");
    for argument in flags {
        if let Some(dashed) = argument.to_str().and_then(with_dashes) {
            *argument = dashed.into();
        }
    }
    arguments
}

/// A flag whose name has underscores, without them.
fn with_dashes(argument: &str) -> Option<String> {
    let flag = argument.strip_prefix("--")?;
    let end = flag.find('=').unwrap_or(flag.len());
    let (name, value) = flag.split_at(end);
    name.contains('_').then(|| format!("--{}{value}", name.replace('_', "-")))
}

/// Reads a yes or no as Go's flags do.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err("give true or false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_may_call_it_as_they_are_used_to() {
        let table: [(&[&str], &[&str]); 7] = [
            (&["hostler", "crds"], &["hostler", "crds"]),
            (&["/machine-controller", "--v=3"], &["/machine-controller", "machine-controller", "--v=3"]),
            (&["/machine-controller", "machine-controller"], &["/machine-controller", "machine-controller"]),
            (&["/usr/bin/machine-controller"], &["/usr/bin/machine-controller", "machine-controller"]),
            (
                &["hostler", "machine-controller", "--kube_api_qps=1", "--target_kubeconfig", "/a_b", "x_y"],
                &["hostler", "machine-controller", "--kube-api-qps=1", "--target-kubeconfig", "/a_b", "x_y"],
            ),
            (
                &["hostler", "machine-controller", "--node-conditions=A_B", "--", "--a_b"],
                &["hostler", "machine-controller", "--node-conditions=A_B", "--", "--a_b"],
            ),
            (&["hostler", "dev", "--a_b"], &["hostler", "dev", "--a_b"]),
        ];
        for (given, expected) in table {
            assert_eq!(understood(given.iter().map(OsString::from)), expected, "{given:?}");
        }
    }
}
