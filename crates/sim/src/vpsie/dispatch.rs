//! From a call to the part of the cloud that answers it.

use super::{answer::Outcome, call::Call, cloud::Cloud, life::Order, operation::Operation};

impl Cloud {
    pub(super) fn carry_out(&mut self, call: &Call) -> Outcome {
        use Operation as O;
        let (first, second) = (call.id(0), call.id(1));
        match call.target.operation {
            O::ExchangeToken => self.exchange(call),
            O::ListVMs | O::ListAllVMs => self.list_vms(call),
            O::CreateVM => self.create_vm(call, false),
            O::CreateCustomVM => self.create_vm(call, true),
            O::DeleteVM => self.delete_vm(call),
            O::ListPendingVMs => self.list_pending(),
            O::GetVMStatus => self.get_status(first),
            O::GetAgentStatus => self.get_agent_status(first),
            O::GetVM => self.get_vm(first),
            O::StartVM => self.order(call, Order::Start),
            O::StopVM => self.order(call, Order::Stop),
            O::RestartVM => self.order(call, Order::Restart),
            O::LockVM => self.lock(call, true),
            O::UnlockVM => self.lock(call, false),
            O::ChangeHostname => self.change_hostname(call),
            O::AddTags => self.add_tags(call),
            O::AddSshKeyToVM => self.add_key_to_vm(call),
            O::AddVMToVpc => self.add_vm_to_vpc(call),
            O::RemoveVMFromVpc => self.remove_vm_from_vpc(call),
            O::ListStorageVMs => self.list_storage_vms(),
            O::ListPlanCategories => self.list_plan_categories(),
            O::ListPlans => self.list_plans(call),
            O::ListDatacenters => self.list_datacenters(call),
            O::ListImages => self.list_images(),
            O::ListCustomImages => self.list_custom_images(),
            O::ListProjects => self.list_projects(),
            O::GetProject => self.get_project(first),
            O::ListSshKeys => self.list_ssh_keys(),
            O::GetSshKey => self.get_ssh_key(first),
            O::AddSshKey => self.add_ssh_key(call),
            O::DeleteSshKey => self.delete_ssh_key(call),
            O::ListScripts => self.list_scripts(),
            O::GetScript => self.get_script(first),
            O::AddScript => self.add_script(call),
            O::DeleteScript => self.delete_script(call),
            O::ListVpcs => self.list_vpcs(),
            O::GetVpc => self.get_vpc(first),
            O::AddVpc => self.add_vpc(call),
            O::DeleteVpc => self.delete_vpc(first),
            O::ListClusters => self.list_clusters(),
            O::GetCluster => self.get_cluster(first),
            O::CreateCluster => self.create_cluster(call),
            O::ListNodeGroups => self.list_groups(first),
            O::AddNodeGroup => self.add_group(call),
            O::DeleteNodeGroup => self.delete_group(first),
            O::ListKubeSizes => self.list_kube_sizes(call),
            O::AddWorkerToGroup => self.add_worker_to_group(first, second),
            O::AddWorker => self.add_worker(first, None),
            O::DeleteWorker => self.delete_worker(first, call),
            O::ReduceWorkers => self.reduce_workers(first, call),
        }
    }
}
