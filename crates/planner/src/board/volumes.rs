//! Volumes that are there and belong to nobody yet. Where nobody provisions a class, a claim of it gets one of these or
//! none.

use super::build::Builder;
use crate::intern::Sym;
use crate::model::{Claim, PersistentVolume};
use crate::select::{Terms, any_term_holds, node_terms};

/// A claim that is not bound and waits for its first pod.
#[derive(Clone, Debug)]
pub(crate) struct OpenClaim {
    pub name: Sym,
    pub request: i64,
    /// What it could get, in the order in which the scheduler takes it: smallest first.
    pub candidates: Vec<u32>,
}

/// From where a volume can be reached; from everywhere if it does not say.
pub(crate) type Reach = Option<Terms>;

impl Builder<'_> {
    /// The number of the claim, unless no volume suits it anywhere.
    pub fn open_claim(&mut self, name: Sym, claim: &Claim) -> Option<u32> {
        if let Some(known) = self.open_claims.iter().position(|open| open.name == name) {
            return u32::try_from(known).ok();
        }
        let suits = |volume: &PersistentVolume| {
            volume.available
                && volume.class == claim.class
                && volume.capacity >= claim.request
                && claim.modes.iter().all(|mode| volume.modes.contains(mode))
        };
        let input = self.input;
        let mut suiting: Vec<(i64, &str, u32)> = (0u32..)
            .zip(&input.volumes)
            .filter(|(_, volume)| suits(volume))
            .map(|(number, volume)| (volume.capacity, volume.name.as_str(), number))
            .collect();
        if suiting.is_empty() {
            return None;
        }
        suiting.sort_unstable();
        let candidates: Vec<u32> = suiting.into_iter().map(|(_, _, number)| number).collect();
        for number in &candidates {
            if self.reach[*number as usize].is_none() {
                let terms = input.volumes[*number as usize].node_affinity.as_ref();
                self.reach[*number as usize] = Some(terms.map(|terms| node_terms(&mut self.symbols, terms)));
            }
        }
        self.open_claims.push(OpenClaim { name, request: claim.request, candidates });
        u32::try_from(self.open_claims.len() - 1).ok()
    }
}

impl super::Board<'_> {
    pub fn reaches(&self, volume: u32, node_class: u32) -> bool {
        let labels = &self.node_classes[node_class as usize].labels;
        self.reach[volume as usize].as_ref().is_none_or(|terms| any_term_holds(terms, labels, &self.symbols))
    }
}
