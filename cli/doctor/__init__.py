"""The command `amqp-server doctor`: what this machine and a directory have for a server.

        command       options, output, exit codes
        finding       what a check found, and what to change
        versions      this program and what is compiled; Python; the data's format
        processor     cores, and how fast the machine tells the time
        memory        what the process may use, against the settings
        open_files    the limit, against the settings
        directory     the data directory: owner, modes, file system, room
        disk_syncs    how long the disk takes to make a write durable
        clock         whether it is right, and set by others
        ports         who has the ports of the settings
        certificates  files of the settings: do they exist, how long are they valid
        access        who could reach the server, and with which password

Nothing is written but an unnamed file, which is gone at the end.
"""

from cli.doctor.command import doctor

__all__ = ["doctor"]
