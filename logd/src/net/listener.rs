//! Listening sockets, bound with what std does not offer.
//! Guarantees: an address in use is refused, also a unix socket that a living process answers on; the socket file a dead one left is replaced.
//! Must not know: what is done with connections.
//! Next: acceptor.rs.

use super::stream::Stream;
use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Connections that may wait to be accepted, as in Redis.
const BACKLOG: i32 = 511;

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// On a network address.
    Tcp(TcpListener),
    /// On a path, which is removed at the end.
    Unix(UnixListener, PathBuf),
}

/// All sockets of a server.
#[derive(Debug)]
pub struct Listeners {
    /// They.
    pub all: Vec<Listener>,
    /// Where they listen, in words, port 0 resolved.
    pub names: Vec<String>,
    /// Their network addresses.
    pub addresses: Vec<SocketAddr>,
}

impl Listeners {
    /// Binds all. Errors name the address.
    pub fn bind(listen: &[SocketAddr], unix: Option<&Path>) -> io::Result<Listeners> {
        let mut bound = Listeners { all: Vec::new(), names: Vec::new(), addresses: Vec::new() };
        for address in listen {
            let listener = tcp(*address).map_err(|error| named(&address.to_string(), &error))?;
            let address = listener.local_addr()?;
            bound.all.push(Listener::Tcp(listener));
            bound.names.push(address.to_string());
            bound.addresses.push(address);
        }
        if let Some(path) = unix {
            let listener = unix_at(path).map_err(|error| named(&path.display().to_string(), &error))?;
            bound.all.push(Listener::Unix(listener, path.to_owned()));
            bound.names.push(path.display().to_string());
        }
        Ok(bound)
    }
}

impl Listener {
    /// The next connection. `WouldBlock` if there is none.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Replies are written whole; waiting for more would only delay them.
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }

    /// Has connections reported under a token.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
            Listener::Unix(listener, _) => listener.register(registry, token, Interest::READABLE),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // Left behind it would only be found stale and replaced.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}

fn unix_at(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => remove_stale(path)?,
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is not a socket")),
        Err(_) => {}
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    let listener = std::os::unix::net::UnixListener::from(OwnedFd::from(socket));
    Ok(UnixListener::from_std(listener))
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A living process with a full queue must not make us wait.
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it")),
    }
}

fn named(address: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("failed to listen on {address}: {error}"))
}
