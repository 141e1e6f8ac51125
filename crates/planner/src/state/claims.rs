//! Which volume an open claim gets.

use super::{NodeId, State};
use crate::board::ClassId;
use crate::intern::Sym;

impl State<'_> {
    /// For every open claim of the class the volume it has or would get on a node; what is missing otherwise.
    fn volumes_for(&self, class: ClassId, node: NodeId) -> Result<Vec<(u32, u32)>, Sym> {
        let board = self.board;
        let node_class = self.places[node as usize].class;
        let mut found: Vec<(u32, u32)> = Vec::new();
        for claim in &board.class(class).claims {
            let open = &board.open_claims[*claim as usize];
            let reaches = |volume: &u32| board.reaches(*volume, node_class);
            let volume = match self.given[*claim as usize] {
                Some((volume, _)) => Some(volume).filter(reaches),
                None => open.candidates.iter().copied().filter(reaches).find(|volume| {
                    !self.taken[*volume as usize] && !found.iter().any(|(_, own)| own == volume)
                }),
            };
            found.push((*claim, volume.ok_or(open.name)?));
        }
        Ok(found)
    }

    pub(super) fn lacks_volume(&self, class: ClassId, node: NodeId) -> Option<Sym> {
        self.volumes_for(class, node).err()
    }

    pub(super) fn give_volumes(&mut self, class: ClassId, node: NodeId, count: i64) {
        if count > 0 {
            for (claim, volume) in self.volumes_for(class, node).unwrap_or_default() {
                self.taken[volume as usize] = true;
                self.given[claim as usize].get_or_insert((volume, 0)).1 += count;
            }
            return;
        }
        let board = self.board;
        for claim in &board.class(class).claims {
            let Some((volume, users)) = &mut self.given[*claim as usize] else { continue };
            *users += count;
            if *users <= 0 {
                self.taken[*volume as usize] = false;
                self.given[*claim as usize] = None;
            }
        }
    }
}
