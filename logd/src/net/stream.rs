//! A client's socket of either kind.
//! Guarantees: never blocks.
//! Must not know: what is sent.
//! Next: connection.rs.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::io::{self, Read, Write};
use std::net::Shutdown;

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// Over the network.
    Tcp(TcpStream),
    /// On this machine.
    Unix(UnixStream),
}

impl Stream {
    /// Addresses of the client and of ours, as CLIENT LIST shows them.
    pub fn addresses(&self) -> (String, String) {
        let text = |address: io::Result<std::net::SocketAddr>| address.map(|address| address.to_string());
        match self {
            Stream::Tcp(stream) => {
                (text(stream.peer_addr()).unwrap_or_default(), text(stream.local_addr()).unwrap_or_default())
            }
            Stream::Unix(stream) => {
                let path = stream.local_addr().ok().and_then(|address| address.as_pathname().map(ToOwned::to_owned));
                let path = path.map(|path| path.display().to_string()).unwrap_or_default();
                (format!("{path}:0"), format!("{path}:0"))
            }
        }
    }

    /// Has its events reported under a token.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interests = Interest::READABLE | Interest::WRITABLE;
        match self {
            Stream::Tcp(stream) => stream.register(registry, token, interests),
            Stream::Unix(stream) => stream.register(registry, token, interests),
        }
    }

    /// Tells the client that nothing more will come.
    pub fn end_output(&self) {
        // The client may be gone already, which is what is wanted anyway.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
