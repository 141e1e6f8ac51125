//! What the justfile calls is there.

use crate::playground::hostler;
use std::{collections::BTreeMap, fs, path::Path};

/// The recipes and their one command, as words.
fn recipes() -> BTreeMap<String, Vec<String>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../justfile");
    let mut recipes = BTreeMap::new();
    let mut recipe = None;
    for line in fs::read_to_string(file).unwrap().lines() {
        if let Some(command) = line.strip_prefix("    ") {
            let words = command.split_whitespace().map(str::to_owned).collect();
            let name: String = recipe.take().expect("one command per recipe");
            assert!(recipes.insert(name, words).is_none(), "{line}");
        } else if let Some((head, "")) = line.split_once(':')
            && !line.starts_with('#')
        {
            recipe = head.split_whitespace().next().map(str::to_owned);
        }
    }
    recipes
}

#[test]
fn every_recipe_calls_a_command_that_is_there_with_flags_that_it_has() {
    let recipes = recipes();
    for name in ["dev", "start", "test", "sim", "image", "bench"] {
        assert!(recipes.contains_key(name), "the recipe {name} is missing");
    }
    let chores =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/src/main.rs")).unwrap();
    for (name, words) in recipes {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["cargo", "run", rest @ ..] => {
                let at = rest.iter().position(|word| *word == "--").unwrap();
                let ours = &rest[at + 1..];
                let is_word = |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                let commands: Vec<&str> =
                    ours.iter().take_while(|word| !word.starts_with("--")).filter(is_word).copied().collect();
                let help = hostler(&commands).arg("--help").output().unwrap();
                let told = String::from_utf8(help.stdout).unwrap();
                assert!(help.status.success(), "{name}: {commands:?} is no command");
                let usage = format!("Usage: hostler {}", commands.join(" "));
                assert!(told.contains(&usage), "{name}: {told}");
                for flag in ours.iter().filter(|word| word.starts_with("--")) {
                    assert!(
                        told.split_whitespace().any(|word| word == *flag),
                        "{name}: {commands:?} has no flag {flag}"
                    );
                }
            }
            ["cargo", "xtask", chore, ..] => {
                assert!(chores.contains(&format!("\n  {chore} ")), "{name}: xtask has no chore {chore}");
            }
            ["cargo", "fmt", "--all"] | ["@just", "--list"] => {}
            other => panic!("{name}: {other:?} is not looked at"),
        }
    }
}
