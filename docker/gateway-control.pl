#!/usr/bin/perl
# What kew asks of a running gateway, each call under one lock: which address a container gets and what it may reach. A
# lease is a file `leases/ADDRESS`; its entries are in HAProxy's map, and are read back before they count.
#
#   lease ID FIRST LAST BUSY [NAME:PORT…]   a free address from FIRST to LAST (BUSY: those that containers have, commas)
#                                           prints `leased ADDRESS SECONDS`
#   release ID ADDRESS                      takes the entries and the connections back; prints `released`, or `lost` where
#                                           the gateway knows no such lease (it has started again since)
#   status                                  prints `generation G`, `leases N`
#   resolve NAME…                           prints `NAME address|none|silent` for each, by the gateway's own resolver
# exit status: 0 done, 1 not done (stderr says why)
use strict;
use warnings;
use Fcntl qw(:flock);
use IO::Socket::UNIX;
use Socket qw(inet_aton inet_ntoa);

my $run = '/run/kew';
my $map = "$run/allow.map";
# A lease whose container does not exist is taken back after so many seconds: its owner has gone.
my $stale = 180;

sub fail { print STDERR "@_\n"; exit 1 }

sub haproxy {
    my ($command) = @_;
    my $socket = IO::Socket::UNIX->new(Peer => "$run/control.sock") or fail("the gateway's HAProxy does not answer: $!");
    print $socket "$command\n";
    local $/;
    my $answer = <$socket> // '';
    $answer =~ s/\s+\z//;
    return $answer;
}

# The entries of one address: key -> value.
sub entries {
    my ($address) = @_;
    my %found;
    for my $line (split /\n/, haproxy("show map $map")) {
        my (undef, $key, $to) = split / /, $line;
        $found{$key} = $to if defined $to && $key =~ /^\Q$address\E\|/;
    }
    return %found;
}

# Entries first, so that no new connection is made; then those that are there.
sub clear {
    my ($address) = @_;
    my %old = entries($address);
    haproxy("del map $map $_") for keys %old;
    %old = entries($address);
    fail("entries of $address could not be removed") if %old;
    for my $line (split /\n/, haproxy('show sess')) {
        haproxy("shutdown session $1") if $line =~ /^(0x[0-9a-f]+): .*\bsrc=\Q$address\E:/;
    }
}

sub read_lease {
    my ($address) = @_;
    open my $file, '<', "$run/leases/$address" or return;
    my $id = <$file> // '';
    chomp $id;
    return $id;
}

sub now { my $time = `date +%s.%N`; chomp $time; return $time }

sub lease {
    my ($id, $first, $last, $busy, @names) = @_;
    my %busy = map { $_ => 1 } split /,/, $busy;
    my @leased = map { s{.*/}{}r } glob("$run/leases/*");
    for my $address (@leased) {
        next if $busy{$address} || time - (stat "$run/leases/$address")[9] < $stale;
        clear($address);
        unlink "$run/leases/$address";
    }
    $busy{ s{.*/}{}r } = 1 for glob("$run/leases/*");
    my ($low, $high) = map { unpack 'N', inet_aton($_) } $first, $last;
    my @free = grep { !$busy{$_} } map { inet_ntoa(pack 'N', $_) } $low .. $high;
    fail('every address is taken') if !@free;
    # Any of them: an address that somebody had a moment ago is unlikely to come again soon.
    my $address = $free[int rand @free];
    clear($address);
    my $time = now();
    open my $file, '>', "$run/leases/$address" or fail("no lease could be written: $!");
    print $file "$id\n";
    close $file or fail("no lease could be written: $!");
    my %wanted;
    for my $name (@names) {
        my ($host, $port) = $name =~ /^([a-z0-9.-]+):(\d+)$/ or fail("`$name` is no host and port");
        $wanted{"$address|$port|$host"} = $host;
        my $said = haproxy("add map $map $address|$port|$host $host");
        fail("HAProxy says: $said") if $said ne '';
    }
    my %there = entries($address);
    my $same = join("\n", map { "$_ $there{$_}" } sort keys %there) eq join("\n", map { "$_ $wanted{$_}" } sort keys %wanted);
    if (!$same) {
        clear($address);
        unlink "$run/leases/$address";
        fail('the entries that were read back are not those that were written');
    }
    print "leased $address $time\n";
}

sub release {
    my ($id, $address) = @_;
    fail('no address') if $address !~ /^[0-9.]+$/;
    my $owner = read_lease($address);
    if (!defined $owner || $owner ne $id) { print "lost\n"; return }
    clear($address);
    unlink "$run/leases/$address" or fail("the lease could not be removed: $!");
    print "released\n";
}

sub status {
    open my $file, '<', "$run/generation" or fail("the gateway is not up: $!");
    my $generation = <$file>;
    haproxy('show info') =~ /^Name: HAProxy/m or fail('HAProxy does not answer');
    my @leases = glob("$run/leases/*");
    print "generation $generation", 'leases ' . @leases . "\n";
}

# By hand, as the C library takes no answer and an answer of none for the same. All at once, three times two seconds.
sub resolve {
    require IO::Socket::INET;
    my @names = @_;
    my %word;
    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.11', PeerPort => 53, Proto => 'udp') or fail("no resolver: $!");
    for my $try (1 .. 3) {
        for my $id (grep { !$word{ $names[$_] } } 0 .. $#names) {
            my $question = join '', map { chr(length) . $_ } split /\./, $names[$id];
            $socket->send(pack('n6', $id, 0x0100, 1, 0, 0, 0) . "$question\0" . pack('n2', 1, 1));
        }
        my $until = time + 2;
        while (time <= $until && grep { !$word{$_} } @names) {
            my $ready = '';
            vec($ready, fileno($socket), 1) = 1;
            next if !select($ready, undef, undef, 0.5);
            my $answer = '';
            next if !defined $socket->recv($answer, 4096) || length $answer < 12;
            my ($id, $flags, undef, $count) = unpack 'n4', $answer;
            next if $id > $#names;
            my $code = $flags & 15;
            $word{ $names[$id] } = $count ? 'address' : 'none' if $code == 0 || $code == 3;
        }
    }
    print "$_ ", $word{$_} // 'silent', "\n" for @names;
}

my $what = shift // '';
my %known = (lease => \&lease, release => \&release, status => \&status, resolve => \&resolve);
my $call = $known{$what} or fail("unknown: $what");
if ($what eq 'lease' || $what eq 'release') {
    open my $lock, '+<', "$run/lock" or fail("the gateway is not up: $!");
    flock $lock, LOCK_EX or fail("no lock: $!");
    $call->(@ARGV);
} else {
    $call->(@ARGV);
}
