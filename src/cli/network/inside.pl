# Runs inside an agent's container, as the agent: tries everything that must not work, and the one thing that must. Prints
# `pass WHAT` or `FAIL WHAT: WHY`, one line each.
#
# arguments: GATEWAY DOUBLE PEER HOSTPORT TLS_PORTS HOST…   (addresses; HOST are those of the engine's host; ports by commas)
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Socket qw(:DEFAULT inet_aton inet_ntoa);

my ($gateway, $double, $peer, $host_port, $tls_ports, @hosts) = @ARGV;
my $allowed = 'allowed.kew-check.example';
my $bad = 0;
$| = 1;

sub told { my ($what, $why) = @_; if (defined $why && $why ne '') { $bad++; print "FAIL $what: $why\n" } else { print "pass $what\n" } }

# A TLS hello with this server name; undef: without one.
sub hello {
    my ($name) = @_;
    my $extensions = '';
    if (defined $name) {
        my $entry = pack('C n/a*', 0, $name);
        $extensions = pack('n n/a*', 0, pack('n/a*', $entry));
    }
    my $body = pack('n', 0x0303) . ('k' x 32) . "\0" . pack('n n', 2, 0x1301) . "\1\0" . pack('n/a*', $extensions);
    my $handshake = "\1" . substr(pack('N', length $body), 1) . $body;
    return pack('C n n/a*', 22, 0x0301, $handshake);
}

sub connection {
    my ($address, $port, $timeout) = @_;
    return IO::Socket::INET->new(PeerAddr => $address, PeerPort => $port, Proto => 'tcp', Timeout => $timeout // 2);
}

# What comes back for these bytes: undef if there was no connection, '' if it was closed without a word.
sub answer {
    my ($address, $port, $bytes) = @_;
    my $socket = connection($address, $port) or return undef;
    local $SIG{PIPE} = 'IGNORE';
    syswrite $socket, $bytes;
    my $got = '';
    my $ready = '';
    vec($ready, fileno($socket), 1) = 1;
    sysread $socket, $got, 4096 if select($ready, undef, undef, 15);
    return $got;
}

sub lookup {
    my ($name) = @_;
    my $packed = gethostbyname($name);
    return defined $packed ? inet_ntoa($packed) : '';
}

# A closed door: no connection, or one that ends without the double's word.
sub closed {
    my ($what, $address, $port, $bytes) = @_;
    my $got = answer($address, $port, $bytes);
    told($what, defined $got && $got =~ /kew-double/ ? 'it got to the server outside' : '');
}

# Which of these `[address, port]` take a connection, all tried at once within a second and a half.
sub open_ones {
    my @open;
    while (my @some = splice @_, 0, 400) {
        my $waiting = IO::Select->new;
        my %to;
        for my $pair (@some) {
            my $socket = IO::Socket::INET->new(PeerAddr => $pair->[0], PeerPort => $pair->[1], Proto => 'tcp', Blocking => 0) or next;
            $to{$socket} = $pair;
            $waiting->add($socket);
        }
        my $until = time + 2;
        while ($waiting->count && time < $until) {
            for my $socket ($waiting->can_write(0.25)) {
                $waiting->remove($socket);
                push @open, $to{$socket} if $socket->connected;
            }
        }
    }
    return @open;
}

# Doors that nobody may open; tried together at the end.
my @doors;
sub unreachable { my ($what, $address, @ports) = @_; push @doors, [$what, $address, @ports] }

sub datagram {
    my ($address, $port, $bytes, $wait) = @_;
    my $socket = IO::Socket::INET->new(PeerAddr => $address, PeerPort => $port, Proto => 'udp') or return undef;
    send $socket, $bytes, 0;
    my $ready = '';
    vec($ready, fileno($socket), 1) = 1;
    return undef if !select($ready, undef, undef, $wait);
    my $got = '';
    return defined recv($socket, $got, 4096, 0) ? $got : undef;
}

sub question {
    my ($name, $type) = @_;
    return pack('n6', 7, 0x0100, 1, 0, 0, 0) . join('', map { pack('C/a*', $_) } split /\./, $name) . "\0" . pack('n2', $type, 1);
}

my $resolved = lookup($allowed);
my $got = answer($resolved, 443, hello($allowed)) if $resolved;
told('an allowed host is reached, by name alone', !$resolved ? 'its name has no address' : ($got // '') =~ /kew-double/ ? '' : 'no word from the server outside');
told('no proxy variable is set', join ' ', grep { /proxy/i } keys %ENV);

closed('another host', $gateway, 443, hello('other.kew-check.example'));
closed('a host below the allowed one', $gateway, 443, hello("x.$allowed"));
closed('a host that ends like the allowed one', $gateway, 443, hello("x$allowed"));
closed('a host that begins like the allowed one', $gateway, 443, hello("$allowed.other.kew-check.example"));
closed('a name with NUL before the allowed one', $gateway, 443, hello("other.kew-check.example\0.$allowed"));
closed('a name with NUL after the allowed one', $gateway, 443, hello("$allowed\0.other.kew-check.example"));
closed('a name with a newline', $gateway, 443, hello("$allowed\n"));
closed('a name with the map\'s own separator', $gateway, 443, hello("443|$allowed"));
closed('a trailing dot', $gateway, 443, hello("$allowed."));
closed('an empty name', $gateway, 443, hello(''));
closed('no name', $gateway, 443, hello(undef));
closed('an address as the name', $gateway, 443, hello($double));
closed('plain HTTP on the port for TLS', $gateway, 443, "GET / HTTP/1.1\r\nHost: $allowed\r\n\r\n");
closed('HTTP CONNECT on the port for TLS', $gateway, 443, "CONNECT $allowed:443 HTTP/1.1\r\nHost: $allowed:443\r\n\r\n");
closed('plain HTTP', $gateway, 80, "GET / HTTP/1.1\r\nHost: $allowed\r\n\r\n");
closed('HTTP CONNECT', $gateway, 80, "CONNECT $allowed:443 HTTP/1.1\r\nHost: $allowed:443\r\n\r\n");
closed('the allowed host on another port for TLS', $gateway, $_, hello($allowed)) for grep { $_ != 443 } split /,/, $tls_ports;

unreachable('the server outside by its address', $double, 443, 80);
unreachable('the metadata address', '169.254.169.254', 80);
unreachable('a public address', '192.0.2.1', 443);

my $socket;
my $there = pack('S n N a16 N', AF_INET6, 443, 0, "\x20\x01\x0d\xb8" . "\0" x 11 . "\1", 0);
my $six = socket($socket, AF_INET6, SOCK_STREAM, 0) && connect($socket, $there);
told('IPv6', $six ? 'connected' : '');
my $addresses = '';
if (open my $file, '<', '/proc/net/if_inet6') { $addresses = join ' ', grep { !/^0{31}1/ } map { (split)[0] } <$file> }
told('no IPv6 address', $addresses);

told('UDP 443 to the server outside', defined datagram($double, 443, 'quic', 0.5) ? 'answered' : '');
told('UDP 443 to the gateway', defined datagram($gateway, 443, 'quic', 0.5) ? 'answered' : '');
told('a name server outside, by UDP', defined datagram($double, 53, question('a.kew-check.example', 1), 0.5) ? 'answered' : '');
unreachable('a name server outside, by TCP', $double, 53);
told('a public name server', defined datagram('192.0.2.53', 53, question('a.kew-check.example', 1), 0.5) ? 'answered' : '');

my $tunnel = 'c2VjcmV0.' . int(rand 1e9) . '.tunnel.kew-check.example';
my $seen = lookup($tunnel);
told('a tunnel by lookups ends at the gateway', $seen eq $gateway ? '' : "the answer is `$seen`");
for my $type (16, 10, 65, 28, 15) {
    my $text = datagram($gateway, 53, question($tunnel, $type), 3) // '';
    my (undef, $flags, undef, $answers) = length $text >= 12 ? unpack 'n4', $text : (0, 0, 0, 0);
    told("… and says nothing of type $type", $answers ? 'there was an answer' : '');
}

unreachable("the engine's host at $_", $_, $host_port, 22, 53, 2375, 2376) for @hosts;
unreachable('another agent', $peer, 443, 8000);
told('another agent by UDP', defined datagram($peer, 8000, 'x', 0.5) ? 'answered' : '');

my %found = map { ("@$_", 1) } open_ones(map { my ($what, $address, @ports) = @$_; map { [$address, $_] } @ports } @doors);
for my $door (@doors) {
    my ($what, $address, @ports) = @$door;
    my @open = grep { $found{"$address $_"} } @ports;
    told($what, @open ? "connected to port @open" : '');
}

my %known = map { $_ => 1 } 53, 80, split /,/, $tls_ports;
my @other = map { $_->[1] } open_ones(map { [$gateway, $_] } 1 .. 2100, 3128, 5353, 8000 .. 8500, 9000 .. 9100);
@other = grep { !$known{$_} } @other;
told("the gateway's other ports", @other ? "open: @other" : '');
exit($bad ? 1 : 0);
