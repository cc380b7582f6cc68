//! The names: directories, what is in them now, and what of that outlives a power cut.
//! Guarantees: C3. A power cut keeps a prefix of each directory's unsynced changes; a rename happens as a whole.
//! Must not know: users, faults, time.
//! Next: file.rs.

use super::super::Listed;
use super::file::File;
use crate::prng::Prng;
use std::collections::BTreeMap;

/// Number of a file or directory, whatever its name.
pub(super) type NodeId = u64;

const ROOT: NodeId = 0;

/// All files and directories.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    next: NodeId,
}

#[derive(Clone, Debug)]
enum Node {
    File(File),
    Directory(Directory),
}

#[derive(Clone, Debug, Default)]
struct Directory {
    names: BTreeMap<String, NodeId>,
    synced: BTreeMap<String, NodeId>,
    unsynced: Vec<Change>,
}

/// A change of one directory.
#[derive(Clone, Debug)]
enum Change {
    Add { name: String, node: NodeId },
    Remove { name: String },
    Rename { from: String, to: String },
}

/// Why a name cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameError {
    NotFound,
    Exists,
    NotAFile,
    NotADirectory,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, NodeId>) {
        match self {
            Change::Add { name, node } => {
                names.insert(name.clone(), *node);
            }
            Change::Remove { name } => {
                names.remove(name);
            }
            Change::Rename { from, to } => {
                let node = names.remove(from).expect("a change applies to the names it was made on");
                names.insert(to.clone(), node);
            }
        }
    }
}

impl Directory {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.unsynced.push(change);
    }
}

impl Tree {
    pub(super) fn new() -> Tree {
        Tree { nodes: BTreeMap::from([(ROOT, Node::Directory(Directory::default()))]), next: ROOT + 1 }
    }

    pub(super) fn find_file(&self, name: &str) -> Result<NodeId, NameError> {
        let node = self.find(name)?;
        match self.nodes[&node] {
            Node::File(_) => Ok(node),
            Node::Directory(_) => Err(NameError::NotAFile),
        }
    }

    pub(super) fn file(&self, node: NodeId) -> &File {
        match &self.nodes[&node] {
            Node::File(file) => file,
            Node::Directory(_) => panic!("node {node} is a directory"),
        }
    }

    pub(super) fn file_mut(&mut self, node: NodeId) -> &mut File {
        match self.nodes.get_mut(&node) {
            Some(Node::File(file)) => file,
            _ => panic!("node {node} is not a file"),
        }
    }

    pub(super) fn file_named_mut(&mut self, name: &str) -> Option<&mut File> {
        let node = self.find_file(name).ok()?;
        Some(self.file_mut(node))
    }

    pub(super) fn create_file(&mut self, name: &str) -> Result<NodeId, NameError> {
        self.create(name, Node::File(File::default()))
    }

    /// It is no error if the directory is there.
    pub(super) fn create_directory(&mut self, name: &str) -> Result<(), NameError> {
        match self.find(name) {
            Ok(node) => self.directory(node).map(drop),
            Err(NameError::NotFound) => self.create(name, Node::Directory(Directory::default())).map(drop),
            Err(error) => Err(error),
        }
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<(), NameError> {
        self.find_file(from)?;
        let (directory, from) = self.split(from)?;
        let (other, to) = self.split(to)?;
        if directory != other {
            return self.move_across(directory, from, other, to);
        }
        let change = Change::Rename { from: from.to_owned(), to: to.to_owned() };
        if from != to {
            self.directory_mut(directory).change(change);
        }
        Ok(())
    }

    /// Between directories a crash may leave both names, never none: file systems with a journal do it in one transaction.
    fn move_across(&mut self, directory: NodeId, from: &str, other: NodeId, to: &str) -> Result<(), NameError> {
        let node = self.directory(directory)?.names[from];
        self.directory(other)?;
        let target = self.directory_mut(other);
        target.change(Change::Add { name: to.to_owned(), node });
        target.synced = target.names.clone();
        target.unsynced.clear();
        self.directory_mut(directory).change(Change::Remove { name: from.to_owned() });
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> Result<(), NameError> {
        self.find_file(name)?;
        let (directory, name) = self.split(name)?;
        self.directory_mut(directory).change(Change::Remove { name: name.to_owned() });
        Ok(())
    }

    pub(super) fn list(&self, name: &str) -> Result<Vec<Listed>, NameError> {
        let directory = self.directory(self.find(name)?)?;
        let bytes = |node: &NodeId| match &self.nodes[node] {
            Node::File(file) => file.content().len() as u64,
            Node::Directory(_) => 0,
        };
        Ok(directory.names.iter().map(|(name, node)| Listed { name: name.clone(), bytes: bytes(node) }).collect())
    }

    pub(super) fn sync_directory(&mut self, name: &str) -> Result<(), NameError> {
        let node = self.find(name)?;
        self.directory(node)?;
        let directory = self.directory_mut(node);
        directory.synced = directory.names.clone();
        directory.unsynced.clear();
        Ok(())
    }

    /// Drops the files that no name leads to, now or after a crash, and that nobody has open.
    pub(super) fn forget_unreachable(&mut self, is_open: impl Fn(NodeId) -> bool) {
        let mut reached = std::collections::BTreeSet::from([ROOT]);
        for node in self.nodes.values() {
            let Node::Directory(directory) = node else { continue };
            reached.extend(directory.names.values().chain(directory.synced.values()));
            reached.extend(directory.unsynced.iter().filter_map(|change| match change {
                Change::Add { node, .. } => Some(node),
                Change::Remove { .. } | Change::Rename { .. } => None,
            }));
        }
        self.nodes.retain(|node, _| reached.contains(node) || is_open(*node));
    }

    /// Bytes of all files that have a name.
    pub(super) fn bytes(&self) -> u64 {
        let directories = self.nodes.values().filter_map(|node| match node {
            Node::Directory(directory) => Some(directory),
            Node::File(_) => None,
        });
        let files =
            directories.flat_map(|directory| directory.names.values()).filter_map(|node| match &self.nodes[node] {
                Node::File(file) => Some(file.content().len() as u64),
                Node::Directory(_) => None,
            });
        files.sum()
    }

    pub(super) fn file_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.collect_names(ROOT, "", &mut names);
        names.sort();
        names
    }

    /// Puts a synced file under a synced name.
    pub(super) fn put(&mut self, name: &str, bytes: &[u8]) {
        for (end, _) in name.match_indices('/') {
            self.create_directory(&name[..end]).expect("the directories above a file can be made");
        }
        let node = match self.find_file(name) {
            Err(NameError::NotFound) => self.create_file(name).expect("a name that was not found is free"),
            found => found.expect("a file can be put there"),
        };
        *self.file_mut(node) = File::synced(bytes);
        self.sync_directory("").expect("the root is a directory");
        for (end, _) in name.match_indices('/') {
            self.sync_directory(&name[..end]).expect("the directories above a file were made");
        }
    }

    /// One of the trees that a power cut may leave of this one.
    pub(super) fn after_power_cut(&self, prng: &mut Prng) -> Tree {
        let mut left = Tree { nodes: BTreeMap::new(), next: self.next };
        let mut unvisited = vec![ROOT];
        while let Some(id) = unvisited.pop() {
            let node = match &self.nodes[&id] {
                Node::File(file) => Node::File(file.after_power_cut(prng)),
                Node::Directory(directory) => {
                    let kept = prng.below(directory.unsynced.len() as u64 + 1) as usize;
                    let mut names = directory.synced.clone();
                    directory.unsynced[..kept].iter().for_each(|change| change.apply(&mut names));
                    unvisited.extend(names.values());
                    Node::Directory(Directory { synced: names.clone(), names, unsynced: Vec::new() })
                }
            };
            left.nodes.insert(id, node);
        }
        left
    }

    fn collect_names(&self, directory: NodeId, path: &str, names: &mut Vec<String>) {
        let Node::Directory(directory) = &self.nodes[&directory] else { return };
        for (name, node) in &directory.names {
            let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            match &self.nodes[node] {
                Node::File(_) => names.push(path),
                Node::Directory(_) => self.collect_names(*node, &path, names),
            }
        }
    }

    fn create(&mut self, name: &str, node: Node) -> Result<NodeId, NameError> {
        let (directory, name) = self.split(name)?;
        if self.directory(directory)?.names.contains_key(name) {
            return Err(NameError::Exists);
        }
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.directory_mut(directory).change(Change::Add { name: name.to_owned(), node: id });
        Ok(id)
    }

    /// The directory a name is in, and its last part.
    fn split<'a>(&self, name: &'a str) -> Result<(NodeId, &'a str), NameError> {
        let (directory, last) = name.rsplit_once('/').unwrap_or(("", name));
        Ok((self.find(directory)?, last))
    }

    fn find(&self, name: &str) -> Result<NodeId, NameError> {
        let mut node = ROOT;
        for part in name.split('/').filter(|part| !part.is_empty()) {
            node = *self.directory(node)?.names.get(part).ok_or(NameError::NotFound)?;
        }
        Ok(node)
    }

    fn directory(&self, node: NodeId) -> Result<&Directory, NameError> {
        match &self.nodes[&node] {
            Node::Directory(directory) => Ok(directory),
            Node::File(_) => Err(NameError::NotADirectory),
        }
    }

    fn directory_mut(&mut self, node: NodeId) -> &mut Directory {
        match self.nodes.get_mut(&node) {
            Some(Node::Directory(directory)) => directory,
            _ => panic!("node {node} is not a directory"),
        }
    }
}
