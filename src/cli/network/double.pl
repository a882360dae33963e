# A server outside, for the check: answers whatever connects with one line, and writes down who asked for what.
#
# arguments: one TCP or UDP port each, as tcp/443
use strict;
use warnings;
use IO::Socket::INET;
use IO::Select;

$| = 1;
my $select = IO::Select->new;
my %port;
for my $word (@ARGV) {
    my ($proto, $port) = split m{/}, $word;
    my %listen = $proto eq 'tcp' ? (Listen => 64, ReuseAddr => 1) : ();
    my $socket = IO::Socket::INET->new(LocalPort => $port, Proto => $proto, %listen) or die "$word: $!";
    $select->add($socket);
    $port{$socket} = $word;
}
print "ready\n";
while (1) {
    for my $socket ($select->can_read) {
        my $bytes = '';
        if ($port{$socket} =~ /^udp/) {
            recv $socket, $bytes, 4096, 0;
            send $socket, "kew-double\n", 0;
        } else {
            my $client = $socket->accept or next;
            my $ready = '';
            vec($ready, fileno($client), 1) = 1;
            sysread $client, $bytes, 4096 if select($ready, undef, undef, 5);
            syswrite $client, "kew-double\n";
            close $client;
        }
        my $name = $bytes =~ /([a-z0-9.-]*kew-check\.example)/ ? $1 : '-';
        print "asked $port{$socket} $name\n";
    }
}
