//! A small HTTP server for tests, with or without TLS by a certificate of its own: one request per connection.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    net::TcpListener,
    sync::Arc,
    thread,
};

use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer};

/// A request.
pub struct Request {
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Status line after `HTTP/1.1 `, header lines, body.
pub type Response = (String, Vec<String>, Vec<u8>);

/// Serves until the test's process ends; gives the address `127.0.0.1:port`.
pub fn serve(
    tls: Option<Arc<ServerConfig>>,
    handle: impl Fn(Request) -> Response + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), handle, tls) = (stream, Arc::clone(&handle), tls.clone()) else { continue };
            thread::spawn(move || match tls {
                None => answer(stream, &*handle),
                Some(config) => {
                    let connection = ServerConnection::new(config).unwrap();
                    answer(StreamOwned::new(connection, stream), &*handle);
                }
            });
        }
    });
    address
}

fn answer<S: Read + Write>(stream: S, handle: &dyn Fn(Request) -> Response) {
    let mut reader = BufReader::new(stream);
    let Some(request) = read(&mut reader) else { return };
    let (status, headers, body) = handle(request);
    let stream = reader.get_mut();
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    headers.iter().for_each(|header| head.push_str(&format!("{header}\r\n")));
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    let _ = stream.write_all(&body);
    let _ = stream.flush();
}

fn read<R: Read>(reader: &mut BufReader<R>) -> Option<Request> {
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { method, target, headers, body: Vec::new() };
    if let Some(length) = request.header("content-length").and_then(|length| length.parse().ok()) {
        request.body = vec![0; length];
        reader.read_exact(&mut request.body).ok()?;
    }
    Some(request)
}

/// A certificate for 127.0.0.1 that signs itself: the configuration of a server, and the certificate as PEM.
pub fn certificate() -> (Arc<ServerConfig>, String) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Arc::new(config), made.cert.pem())
}
